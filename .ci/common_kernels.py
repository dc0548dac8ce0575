"""Writes facula/cuda/common_kernels.jsonl, what `python -m facula.cuda.warm` compiles: the kernels of ops and modules that
training programs are made of, as a driver that does nothing sees them. What a library of NVIDIA's does needs none.

    python .ci/common_kernels.py
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = """
import facula as t
import facula.nn.functional as F
from facula import nn
UNARY = [F.relu, F.gelu, lambda x: F.gelu(x, approximate="tanh"), F.silu, F.leaky_relu, F.elu, F.softplus, t.sigmoid,
         t.tanh, t.exp, t.log,
         t.log1p, t.sqrt, t.rsqrt, t.neg, t.abs, t.square, t.cos, t.sin, t.reciprocal, t.erf, t.isnan, t.isfinite,
         lambda x: x * 2,
         lambda x: x + 1, lambda x: 1 - x, lambda x: x / 3, lambda x: x ** 2, lambda x: x ** 3, lambda x: x.clamp(0, 1),
         lambda x: x > 0, lambda x: x == 0, t.sum, t.mean, t.amax, t.norm, lambda x: x.sum(0), lambda x: x.sum(-1),
         lambda x: x.mean(-1), lambda x: x.mean((0, 1)), lambda x: x.var(-1), lambda x: x.std(), lambda x: x.max(-1)[0],
         lambda x: x.argmax(-1), lambda x: x.topk(3)[0], lambda x: x.sort()[0], lambda x: F.softmax(x, -1),
         lambda x: F.log_softmax(x, -1),
         lambda x: F.normalize(x, dim=-1), lambda x: x.contiguous(), lambda x: x.cumsum(0), lambda x: x.logsumexp(-1),
         lambda x: t.tril(x),
         lambda x: t.cat([x, x]), lambda x: t.stack([x, x], 1), lambda x: F.pad(x, (1, 1)),
         lambda x: x.masked_fill(x > 0, 0.0),
         lambda x: x.roll(1, 0), lambda x: x.flip(0), lambda x: F.dropout(x, 0.1), t.rand_like, t.randn_like, t.zeros_like,
         t.ones_like, lambda x: t.bernoulli(x), lambda x: x.repeat(2, 2)]
BINARY = [t.add, t.sub, t.mul, t.div, t.maximum, t.minimum, lambda a, b: a @ b, lambda a, b: t.where(a > b, a, b),
         F.mse_loss, F.l1_loss,
          F.smooth_l1_loss, F.binary_cross_entropy_with_logits, lambda a, b: t.addcmul(a, a, b), lambda a, b: a.lerp(b,
                   0.1),
          lambda a, b: F.cosine_similarity(a, b + a), lambda a, b: t.bmm(a.expand(2, 8, 8), (a * b).expand(2, 8, 8))]
MODULES = [(nn.Linear(8, 8), (4, 8)), (nn.LayerNorm(8), (4, 8)), (nn.RMSNorm(8), (4, 8)), (nn.BatchNorm1d(8), (4, 8)),
           (nn.TransformerEncoderLayer(8, 2, 16), (4, 2, 8)),
           (nn.LSTM(8, 8), (4, 2, 8)), (nn.GRU(8, 8), (4, 2, 8)), (nn.Conv1d(4, 4, 3), (2, 4, 8)), (nn.ConvTranspose2d(4,
           4, 2, 2), (2, 4, 8, 8)),
           (nn.Conv2d(4, 4, 1), (2, 4, 8, 8)), (nn.Conv2d(4, 4, 3, padding=1, groups=4), (2, 4, 8, 8)), (nn.GroupNorm(2,
           4), (2, 4, 8, 8)),
           (nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.AvgPool2d(2)),
           (2, 4, 8, 8)),
           (nn.AdaptiveAvgPool2d(1), (2, 4, 8, 8)), (nn.Upsample(scale_factor=2), (2, 4, 8, 8)),
           (nn.Upsample(scale_factor=2, mode="bilinear"), (2, 4, 8, 8))]
def attempt(f, *args):
    try:
        out = f(*args)
        out = out[0] if isinstance(out, tuple) else out
        if out.requires_grad:
            out.float().sum().backward()
    except (RuntimeError, ValueError):  # no kernels, or values that are refused: nothing was written to memory
        pass
for dtype in (t.float32, t.bfloat16, t.float16):
    x, y = (t.ones(8, 8, dtype=dtype).cuda().requires_grad_() for _ in range(2))
    row = t.ones(8, dtype=dtype).cuda().requires_grad_()
    long, classes = t.zeros(8, dtype=t.int64).cuda(), t.zeros(8, dtype=t.int64).cuda()
    for f in UNARY:
        attempt(f, x)
        attempt(f, x.t())
    for f in BINARY:
        for other in (y, y.t(), row):
            attempt(f, x, other)
    for to in (t.float32, t.bfloat16, t.float16, t.int64, t.bool):
        attempt(lambda a: a.to(to), x)
    for f in (lambda a: F.embedding(long, a), lambda a: a[long], lambda a: a.gather(0, long[:, None]),
             lambda a: a.index_select(1, long),
              lambda a: F.cross_entropy(a, classes), lambda a: F.cross_entropy(a, classes, label_smoothing=0.1,
              ignore_index=-1),
              lambda a: F.nll_loss(a, classes), lambda a: a.scatter(0, long[:, None], 1.0), lambda a: a.index_add(0,
              long, a),
              lambda a: F.scaled_dot_product_attention(a[None, None], a[None, None], a[None, None], is_causal=True)):
        attempt(f, x)
    for module, shape in MODULES:
        module = module.to("cuda", dtype)
        data = t.ones(shape, dtype=dtype, device="cuda").requires_grad_()
        attempt(module, data)
        attempt(module.eval(), data)
        for make in (t.optim.SGD, lambda p: t.optim.SGD(p, 0.1, momentum=0.9), t.optim.Adam, t.optim.AdamW):
            if list(module.parameters()):
                attempt(lambda: make(module.parameters()).step() or data)
                attempt(lambda: nn.utils.clip_grad_norm_(module.parameters(), 1.0))
i = t.arange(8).cuda()
for f in (lambda a: a + 1, lambda a: a * 2, lambda a: a == a, lambda a: a < 3, lambda a: a.float(), lambda a: a.bool(),
         t.sum,
          lambda a: F.one_hot(a, 8), lambda a: (a == a).sum(), lambda a: a % 3, lambda a: a.cumsum(0), t.nonzero, t.unique):
    attempt(f, i)
t.randint(0, 5, (8,), device="cuda"), t.randperm(8, device="cuda"), t.arange(8.0, device="cuda")
t.linspace(0, 1, 8, device="cuda")
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "kernels.jsonl"
        environment = {**os.environ, "FACULA_CUDA": "null", "FACULA_CUDA_LOG_KERNELS": str(log), "FACULA_CACHE_DIR": folder,
                       "FACULA_CUDA_DISABLE": "cublas,cudnn,cufft,cusolver"}  # fmt: skip
        environment["PYTHONPATH"] = os.pathsep.join([*sys.path, str(ROOT)])
        subprocess.run([sys.executable, "-c", PROGRAM], env=environment, check=True)
        kernels = sorted({json.dumps(json.loads(line)) for line in log.read_text().splitlines()})
    (ROOT / "facula" / "cuda" / "common_kernels.jsonl").write_text("".join(line + "\n" for line in kernels))
    print(f"{len(kernels)} kernels")


if __name__ == "__main__":
    main()
