"""Attention on the emulated CUDA device: which implementation is used, and what each computes."""

import subprocess
import sys

import pytest
from cuda_environment import environment

BEGIN = """
import ctypes, warnings
import facula as t, facula.nn.functional as F
from facula.backends import cuda, cudnn
from facula.nn.attention import SDPBackend as B, sdpa_kernel
t.manual_seed(1)
attend = F.scaled_dot_product_attention
"""

CASES = {
    "can_use": """
q, k, v = (t.randn(2, 2, 8, 16, device="cuda") for _ in range(3))
can = cuda.can_use_flash_attention, cuda.can_use_efficient_attention
params = cuda.SDPAParams(q, k, v, None, 0.5, True, False)
assert cuda.is_flash_attention_available() and all(each(params) for each in can)
mask = t.zeros(8, 8, device="cuda", requires_grad=True)
for wrong, why in ((cuda.SDPAParams(q, k, v, mask, 0.0, False, False), "requires a gradient"),
                   (cuda.SDPAParams(q, k, v, None, 1.0, False, False), "below 1")):
    for each in can:
        with warnings.catch_warnings(record=True) as said:
            assert not each(wrong, debug=True) and why in str(said[0].message)
cuda.enable_flash_sdp(False)
assert [each(params) for each in can] == [False, True]
want = attend(q.cpu(), k.cpu(), v.cpu(), is_causal=True)
for backend in (B.MATH, B.FLASH_ATTENTION, B.EFFICIENT_ATTENTION):
    with sdpa_kernel(backend):
        assert t.allclose(attend(q, k, v, is_causal=True).cpu(), want, atol=1e-5)
""",
}


def child(code, **variables):
    command = [sys.executable, "-c", BEGIN + code]
    variables = environment(FACULA_CUDA="emulated", **variables)
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("case", CASES)
def test_attention(case):
    child(CASES[case])
