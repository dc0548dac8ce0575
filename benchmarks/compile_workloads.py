"""Define programs that a compiler of element-wise work helps, and some that it does not help; written for either
library.

Every entry of PROGRAMS takes the library and gives a function without arguments. `trains`: a call runs backward as well.
"""

from __future__ import annotations


def focal_loss(torch):
    x, y = torch.randn(8, 20, 8400), (torch.rand(8, 20, 8400) > 0.98).float()
    return lambda: _focal(torch, x, y)


def focal_loss_training(torch):
    x, y = torch.randn(8, 20, 8400, requires_grad=True), (torch.rand(8, 20, 8400) > 0.98).float()

    def step():
        x.grad = None
        loss = _focal(torch, x, y)
        loss.backward()
        return loss.detach()

    return step


def _focal(torch, x, y):
    p = torch.sigmoid(x)
    ce = torch.nn.functional.binary_cross_entropy_with_logits(x, y, reduction="none")
    pt = p * y + (1 - p) * (1 - y)
    loss = ce * (1 - pt) ** 2
    return ((0.25 * y + 0.75 * (1 - y)) * loss).mean()


def giou_loss(torch):
    def boxes():
        return torch.cat([torch.rand(8400, 2), torch.rand(8400, 2) + 1], 1)

    a, b = boxes(), boxes()

    def loss():
        x1, y1, x2, y2 = a.unbind(1)
        u1, v1, u2, v2 = b.unbind(1)
        width = (torch.min(x2, u2) - torch.max(x1, u1)).clamp(min=0)
        height = (torch.min(y2, v2) - torch.max(y1, v1)).clamp(min=0)
        inter = width * height
        union = (x2 - x1) * (y2 - y1) + (u2 - u1) * (v2 - v1) - inter
        area = (torch.max(x2, u2) - torch.min(x1, u1)) * (torch.max(y2, v2) - torch.min(y1, v1))
        return (1 - (inter / (union + 1e-7) - (area - union) / (area + 1e-7))).sum()

    return loss


def affine_flow(torch):
    scale, shift = [torch.randn(8) for _ in range(8)], [torch.randn(8) for _ in range(8)]
    start = torch.randn(65536, 8)

    def forward():
        x, log_det = start, 0
        for s, b in zip(scale, shift):
            t = torch.tanh(x * s + b)
            x = x * torch.exp(0.1 * t) + b
            log_det = log_det + (0.1 * t).sum(1)
        return x, log_det

    return forward


def adam_by_hand(torch):
    n = 1 << 20
    state = {"p": torch.randn(n), "m": torch.zeros(n), "v": torch.zeros(n)}
    g = torch.randn(n)

    def step():
        m, v = 0.9 * state["m"] + 0.1 * g, 0.999 * state["v"] + 0.001 * g * g
        p = state["p"] - 1e-3 * (m / 0.1) / ((v / 0.001).sqrt() + 1e-8)
        state.update(p=p, m=m, v=v)
        return p

    return step


def wave_stencil(torch):
    u, before = torch.randn(1024, 1024), torch.randn(1024, 1024)

    def step():
        middle = u[1:-1, 1:-1]
        laplacian = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * middle
        after = u.clone()
        after[1:-1, 1:-1] = 2 * middle - before[1:-1, 1:-1] + 0.1 * laplacian
        return after

    return step


def softmax_by_hand(torch):
    mask = torch.triu(torch.full((256, 256), -1e9), 1)
    scores = torch.randn(8, 12, 256, 256)

    def forward():
        s = scores * 0.125 + mask
        e = (s - s.max(-1, keepdim=True).values).exp()
        return e / e.sum(-1, keepdim=True)

    return forward


def rms_norm_by_hand(torch):
    weight, x = torch.randn(2048), torch.randn(2048, 2048)
    return lambda: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight


def rotary_embedding(torch):
    cos, sin, q = torch.randn(256, 64), torch.randn(256, 64), torch.randn(8, 12, 256, 64)

    def forward():
        a, b = q[..., :32], q[..., 32:]
        return q * cos + torch.cat([-b, a], -1) * sin

    return forward


def dropout_norm_gelu(torch):
    g, b = torch.randn(768), torch.randn(768)
    x, r, h = torch.randn(2048, 768), torch.randn(2048, 768), torch.randn(2048, 768)
    F = torch.nn.functional

    def forward():
        y = r + F.dropout(x, 0.1)
        return F.layer_norm(y, (768,), g, b), F.gelu(h + b, approximate="tanh")

    return forward


def lstm_cell_in_python(torch):
    w, u, b = torch.randn(32, 512) * 0.1, torch.randn(128, 512) * 0.1, torch.randn(512)
    x, first, state = torch.randn(16, 8, 32), torch.randn(8, 128), torch.randn(8, 128)

    def forward():
        h, c = first, state
        for t in range(16):
            i, f, g, o = (x[t] @ w + h @ u + b).chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return h

    return forward


def moving_average(torch):
    p = [torch.randn(768) for _ in range(98)] + [torch.randn(64, 768) for _ in range(50)]
    e = [t.clone() for t in p]

    def step():
        with torch.no_grad():
            for a, b in zip(e, p):
                a.mul_(0.999).add_(b, alpha=0.001)
        return e[0]

    return step


def physics_informed(torch):
    nn = torch.nn
    inner = [m for _ in range(6) for m in (nn.Linear(20, 20), nn.Tanh())]
    net = nn.Sequential(nn.Linear(2, 20), nn.Tanh(), *inner, nn.Linear(20, 1))
    x, t = torch.randn(256, 1, requires_grad=True), torch.randn(256, 1, requires_grad=True)

    def step():
        u = net(torch.cat([x, t], 1))
        one = torch.ones_like(u)
        u_t = torch.autograd.grad(u, t, one, create_graph=True)[0]
        u_x = torch.autograd.grad(u, x, one, create_graph=True)[0]
        u_xx = torch.autograd.grad(u_x, x, one, create_graph=True)[0]
        loss = ((u_t + u * u_x - 0.00318 * u_xx) ** 2).mean() + (u**2).mean()
        return torch.autograd.grad(loss, list(net.parameters()))[0]

    return step


def policy_network(torch):
    nn = torch.nn
    net = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 4))
    x = torch.randn(1, 8)

    def forward():
        with torch.no_grad():
            return net(x)

    return forward


def policy_training(torch):
    nn = torch.nn
    net = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 4))
    x, y = torch.randn(32, 8), torch.randn(32, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def _chain(kind: str, rows: int):
    def make(torch):
        x, y, z = (torch.randn(rows, 1024) for _ in range(3))
        w, b = torch.randn(1024), torch.randn(1024)
        F = torch.nn.functional
        return {
            "gelu": lambda: F.gelu(x * w + b) + y,
            "arith": lambda: (x * y + z) * 0.5 - x,
            "trans": lambda: torch.tanh(x) * torch.sigmoid(y) + torch.exp(-x * x),
            "norm": lambda: F.layer_norm(x + y, (1024,)) * w + b,
        }[kind]

    return make


PROGRAMS = {
    "focal loss": focal_loss,
    "focal loss, training": focal_loss_training,
    "GIoU loss": giou_loss,
    "affine flow": affine_flow,
    "Adam by hand": adam_by_hand,
    "wave stencil": wave_stencil,
    "softmax by hand": softmax_by_hand,
    "RMS norm by hand": rms_norm_by_hand,
    "rotary embedding": rotary_embedding,
    "dropout, norm, gelu": dropout_norm_gelu,
    "LSTM cell in Python": lstm_cell_in_python,
    "moving average": moving_average,
    "physics-informed": physics_informed,
    "policy network": policy_network,
    "policy training": policy_training,
    **{
        f"{kind} {size}": _chain(kind, rows)
        for size, rows in (("1M", 1024), ("16M", 16384))
        for kind in ("gelu", "arith", "trans", "norm")
    },
}
