"""Writes facula/cuda/common_kernels.jsonl, what `python -m facula.cuda.warm` compiles: the kernels of a list of ops that
training programs are made of, as the emulated device sees them.

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
UNARY = [F.relu, F.gelu, F.silu, F.leaky_relu, t.sigmoid, t.tanh, t.exp, t.log, t.sqrt, t.rsqrt, t.neg, t.abs, t.square, t.cos,
         t.sin, lambda x: x * 2, lambda x: x + 1, lambda x: 1 - x, lambda x: x / 3, lambda x: x ** 2, lambda x: x.clamp(0, 1),
         t.sum, t.mean, t.amax, t.norm, lambda x: x.sum(0), lambda x: x.sum(-1), lambda x: x.mean(-1), lambda x: x.var(-1),
         lambda x: F.softmax(x, -1), lambda x: F.log_softmax(x, -1), lambda x: x.contiguous(), lambda x: x.cumsum(0)]
BINARY = [t.add, t.sub, t.mul, t.div, t.maximum, lambda a, b: a @ b, lambda a, b: t.where(a > b, a, b), F.mse_loss,
          lambda a, b: t.addcmul(a, a, b)]
def attempt(f, *args):
    try:
        out = f(*args)
        if out.requires_grad:
            out.sum().backward()
    except NotImplementedError:  # an op without kernels here has none to compile
        pass
for dtype in (t.float32, t.bfloat16):
    x, y = (t.ones(8, 8, dtype=dtype).cuda().requires_grad_() for _ in range(2))
    row = t.ones(8, dtype=dtype).cuda().requires_grad_()
    for f in UNARY:
        attempt(f, x)
        attempt(f, x.t())
    for f in BINARY:
        for other in (y, y.t(), row):
            attempt(f, x, other)
    for to in (t.float32, t.bfloat16, t.float16, t.int64, t.bool):
        attempt(lambda a: a.to(to), x)
i = t.arange(8).cuda()
for f in (lambda a: a + 1, lambda a: a == a, lambda a: a < 3, lambda a: a.float(), lambda a: a.bool(), t.sum):
    attempt(f, i)
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "kernels.jsonl"
        environment = {**os.environ, "FACULA_CUDA": "emulated", "FACULA_CUDA_LOG_KERNELS": str(log)}
        environment["PYTHONPATH"] = os.pathsep.join([*sys.path, str(ROOT)])
        subprocess.run([sys.executable, "-c", PROGRAM], env=environment, check=True)
        kernels = sorted({json.dumps(json.loads(line)) for line in log.read_text().splitlines()})
    (ROOT / "facula" / "cuda" / "common_kernels.jsonl").write_text("".join(line + "\n" for line in kernels))
    print(f"{len(kernels)} kernels")


if __name__ == "__main__":
    main()
