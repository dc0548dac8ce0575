"""Programs of ops on rows on a CUDA device, which print where results are not the CPU's: `python cuda_rows_worker.py NAME` with
soft-max, norms or losses.

Lengths are those at which kernels change: rows of one thread, of a warp, of a block, and longer ones, whole vectors and not.
"""

from __future__ import annotations

import sys

import facula as torch
import facula.nn.functional as F

LENGTHS = {
    torch.float32: (1, 4, 7, 8, 9, 33, 512, 1023, 1024, 1025, 4096, 8193, 8200),
    torch.bfloat16: (2, 16, 17, 40, 1024, 2047, 2056, 16392),
    torch.float16: (24, 1001),
    torch.float64: (3, 10, 1000, 8194),
}
BOUNDS = {torch.float32: 2e-5, torch.bfloat16: 2e-2, torch.float16: 3e-3, torch.float64: 1e-12}


def numbers(*sizes, dtype=torch.float32, seed=0, apart=0):
    """Random numbers, which begin `apart` elements behind a multiple of every vector's size."""
    count = 1
    for size in sizes:
        count *= size
    made = torch.randn((count + apart,), generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 2
    return made.to(dtype), apart, sizes


def placed(number, device):
    """Put what numbers() gives on a device."""
    flat, apart, sizes = number
    return flat.to(device)[apart:].reshape(sizes)


def compare(what, function, given, dtype, same=True):
    """Print where a function of tensors gives something else on the device than on the CPU in float64, or on a second call."""

    def call(device, wide):
        tensors = [placed(g, device) for g in given]
        if wide:
            tensors = [t.double() if t.is_floating_point() else t for t in tensors]
        tensors = [t.detach().requires_grad_(t.is_floating_point()) for t in tensors]
        made = function(*tensors)
        grad = placed(numbers(*made.shape, dtype=dtype, seed=9), device).to(made.dtype)
        made.backward(grad)
        return [made.detach(), *(t.grad for t in tensors if t.grad is not None)]

    got, again, wanted = call("cuda", False), call("cuda", False), call("cpu", True)
    for number, (a, b, w) in enumerate(zip(got, again, wanted)):
        a, b = a.cpu(), b.cpu()
        if same and not torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)):
            print(f"{what}, result {number}: differs from call to call")
        scale = max(1.0, float(torch.nan_to_num(w, 0, 0, 0).abs().max())) if w.numel() else 1.0
        if not torch.allclose(a.double(), w, rtol=BOUNDS[dtype], atol=BOUNDS[dtype] * scale, equal_nan=True):
            print(f"{what}, result {number}: {(a.double() - w).abs().max()} apart")


def lengths():
    """All lengths, at multiples of a vector's size and not, and how many rows of them."""
    for dtype, those in LENGTHS.items():
        for n in those:
            for apart in (0, 1) if n in (8, 512, 1024, 8200, 40, 16392) else (0,):
                yield dtype, n, apart, 3 if n > 4000 else 19


def soft_max():
    """Return soft-max, its logarithm, and both backwards."""
    for dtype, n, apart, rows in lengths():
        x = numbers(rows, n, dtype=dtype, apart=apart)
        compare(f"softmax {dtype} {n} {apart}", lambda x: x.softmax(-1), [x], dtype)
        compare(f"log_softmax {dtype} {n} {apart}", lambda x: x.log_softmax(-1), [x], dtype)
    for n in (8, 100, 1028, 8200):
        x = numbers(8, n)
        rows = x[0].reshape(8, n)
        rows[0, :] = -torch.inf  # all of them
        rows[1, : n // 2] = -torch.inf
        rows[2, n // 2] = torch.inf
        rows[3, n - 1] = torch.nan
        rows[4, :] = torch.finfo(torch.float32).min
        rows[5, 0] = 1e30
        rows[6, :] = -0.0
        for function in (torch.softmax, torch.log_softmax):
            got, wanted = function(rows.cuda(), -1).cpu(), function(rows, -1)
            if not torch.allclose(got, wanted, rtol=2e-5, atol=1e-6, equal_nan=True):
                print(f"{function.__name__} of special numbers, {n}: {(got - wanted).abs().max(-1)}")
    compare("softmax of columns", lambda x: x.softmax(1), [numbers(3, 40, 5)], torch.float32)


def norms():
    """Layer, RMS and group norms with and without factors, backwards to all."""
    for dtype, n, apart, rows in lengths():
        x = numbers(rows, n, dtype=dtype, apart=apart)
        w, b = numbers(n, dtype=dtype, seed=1), numbers(n, dtype=dtype, seed=2)
        name = f"{dtype} {n} {apart}"
        if n > 2:  # else nothing is left but rounding
            compare(f"layer_norm {name}", lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b), [x, w, b], dtype)
        if n in (7, 512, 1025, 8200, 1024, 16392):
            compare(f"layer_norm without factors {name}", lambda x: F.layer_norm(x, x.shape[-1:]), [x], dtype)
            compare(f"layer_norm with bias {name}", lambda x, b: F.layer_norm(x, x.shape[-1:], None, b), [x, b], dtype)
        compare(f"rms_norm {name}", lambda x, w: F.rms_norm(x, x.shape[-1:], w, 1e-5), [x, w], dtype)
    compare("layer_norm of many rows", lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b),
            [numbers(3000, 12), numbers(12, seed=1), numbers(12, seed=2)], torch.float32)  # fmt: skip
    for dtype, sizes, groups in (
        (torch.float32, (3, 6, 5, 7), 2), (torch.float32, (2, 8, 8, 8), 4), (torch.float32, (70, 24), 3),
        (torch.float32, (2, 4, 48, 50), 2), (torch.float32, (2, 8, 48, 64), 2), (torch.float32, (2, 2, 97, 91), 1),
        (torch.bfloat16, (2, 8, 16, 16), 2), (torch.bfloat16, (2, 6, 5, 5), 3),
    ):  # fmt: skip
        x = numbers(*sizes, dtype=dtype)
        w, b = numbers(sizes[1], dtype=dtype, seed=1), numbers(sizes[1], dtype=dtype, seed=2)
        compare(f"group_norm {dtype} {sizes}", lambda x, w, b, g=groups: F.group_norm(x, g, w, b), [x, w, b], dtype)
    x = ((numbers(3, 9000)[0] + 100) * 1024 // 1 / 1024, 0, (3, 9000))  # far from zero: the mean comes off first
    compare("layer_norm far from zero", lambda x: F.layer_norm(x, x.shape[-1:]), [x], torch.float32)


def losses():
    """Cross entropy with and without weights and smoothing, and the negative log likelihood."""
    for dtype, n, apart, rows in (*lengths(), (torch.float32, 50257, 0, 2), (torch.bfloat16, 50257, 1, 2)):
        x, w = numbers(rows, n, dtype=dtype, apart=apart), numbers(n, dtype=dtype, seed=1)
        w = (w[0].abs(), *w[1:])
        target = torch.randint(0, n, (rows,), generator=torch.Generator().manual_seed(3))
        target[rows // 2] = -100
        classes = (target, 0, (rows,))
        name = f"{dtype} {n} {apart}"

        def entropy(x, target, w=None, smoothing=0.0):
            return F.cross_entropy(x, target, w if w is None else w.detach(), label_smoothing=smoothing, reduction="none")

        compare(f"cross_entropy {name}", entropy, [x, classes], dtype)
        if apart or n in (7, 33, 512, 1025, 8193, 2056, 1000, 50257):
            compare(f"cross_entropy, smoothed {name}", lambda x, t: entropy(x, t, None, 0.1), [x, classes], dtype)
            compare(f"cross_entropy, weighted {name}", entropy, [x, classes, w], dtype)
            compare(f"cross_entropy, both {name}", lambda x, t, w: entropy(x, t, w, 0.1), [x, classes, w], dtype)
            compare(f"nll_loss {name}", lambda x, t: F.nll_loss(x, t, reduction="none"), [x, classes], dtype)
            compare(f"mean {name}", lambda x, t: F.cross_entropy(x, t), [x, classes], dtype)
    target = (torch.arange(12).reshape(2, 6) % 5, 0, (2, 6))
    x = numbers(2, 5, 6)
    compare("cross_entropy of columns", lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1), [x, target], torch.float32)
    for n in (100, 9000):
        x = numbers(3, n)[0].reshape(3, n)
        x[0, : n // 2] = -torch.inf
        x[1, 0] = torch.inf
        x[2, 5] = torch.nan
        target = torch.tensor([n - 1, 3, 4])
        got, wanted = (F.cross_entropy(x.to(d), target.to(d), reduction="none").cpu() for d in ("cuda", "cpu"))
        if not torch.allclose(got, wanted, rtol=2e-5, equal_nan=True):
            print(f"cross_entropy of special numbers: {got} and not {wanted}")


if __name__ == "__main__":
    {"soft-max": soft_max, "norms": norms, "losses": losses}[sys.argv[1]]()
