"""Programs that draw on a CUDA device, for the tests of random numbers."""

import json
import sys

import cuda_kernels
import pytest

SEED, OFFSET, SIZE = 1234567890123, 20, 5000  # more than one round of the emulated device's 4096 threads

BEGIN = """
import json
import facula as t
import facula.nn.functional as F
seed, offset, n = {seed}, {offset}, {size}
d = "cuda"
out = {{}}
def seeded(start=seed, device=d):
    g = t.Generator(device)
    g.set_state(t.tensor(list(start.to_bytes(8, "little") + offset.to_bytes(8, "little")), dtype=t.uint8))
    return g
def keep(name, f, start=seed):
    g = seeded(start)
    out[name] = f(g).cpu().double().tolist()
    out[name + " offset"] = g.get_offset()
default = t.cuda.default_generators[0]
def keep_default(name, f):
    default.set_state(seeded().get_state())
    out[name] = f().cpu().double().tolist()
    out[name + " offset"] = default.get_offset()
"""
END = """
p = t.cuda.get_device_properties(0)
out["threads"] = p.multi_processor_count * (p.max_threads_per_multi_processor // 256) * 256
print(json.dumps(out))
"""


def results(program, **more):
    code = BEGIN.format(seed=SEED, offset=OFFSET, size=SIZE) + program + END
    done = cuda_kernels.run([sys.executable, "-c", code], **more)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


FLOATS = pytest.mark.parametrize("dtype", ("float32", "float64"))
