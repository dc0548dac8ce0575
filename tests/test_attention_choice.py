"""Which implementation of attention is used: flags, priorities, and the error where nothing that is allowed can compute a call."""

import warnings

import numpy as np
import pytest

import facula as t
import facula.nn.functional as F
from facula.backends import cuda
from facula.nn.attention import SDPBackend as B
from facula.nn.attention import _cur_sdpa_kernel_backends as allowed
from facula.nn.attention import sdpa_kernel

PRESET = [B.FLASH_ATTENTION, B.EFFICIENT_ATTENTION, B.MATH, B.CUDNN_ATTENTION, B.OVERRIDEABLE]
ALL = [B.CUDNN_ATTENTION, B.FLASH_ATTENTION, B.EFFICIENT_ATTENTION, B.MATH, B.OVERRIDEABLE]


def given(*sizes):
    t.manual_seed(3)
    return [t.randn(sizes) for _ in range(3)]


def used(*inputs, **options):
    """The implementation, by the name of the node that it leaves."""
    out = F.scaled_dot_product_attention(*(x.detach().requires_grad_() for x in inputs), **options)
    return "one pass" if "ScaledDotProduct" in out.grad_fn.name() else "math"


def refused(call):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with pytest.raises(RuntimeError, match=r"^scaled_dot_product_attention: no backend") as error:
            call()
    return str(error.value), [str(w.message) for w in said]


def test_contexts():
    assert allowed() == ALL and allowed(True) == PRESET
    with sdpa_kernel(B.MATH):
        assert allowed() == [B.MATH] and cuda.math_sdp_enabled() and not cuda.flash_sdp_enabled()
        with sdpa_kernel([B.MATH, B.FLASH_ATTENTION]):
            assert allowed(True) == [B.FLASH_ATTENTION, B.MATH] and allowed() == [B.FLASH_ATTENTION, B.MATH]
        with sdpa_kernel([B.MATH, B.FLASH_ATTENTION], set_priority=True):
            assert allowed(True) == [B.MATH, B.FLASH_ATTENTION] and allowed() == [B.FLASH_ATTENTION, B.MATH]
        assert allowed() == [B.MATH]
    assert allowed() == ALL and allowed(True) == PRESET
    with pytest.warns(FutureWarning, match="sdpa_kernel"), cuda.sdp_kernel(enable_math=False):
        assert B.MATH not in allowed() and len(allowed()) == 4
    assert allowed() == ALL
    for wrong in ("MATH", [1, 2], B.MATH.value):
        with pytest.raises((AssertionError, TypeError)), sdpa_kernel(wrong):
            pass
    for wrong in (1, "a", None):
        with pytest.raises(RuntimeError, match="True or False"):
            cuda.enable_flash_sdp(wrong)
    with pytest.raises(ZeroDivisionError), sdpa_kernel(B.MATH):
        raise ZeroDivisionError
    assert allowed() == ALL


def test_which_is_used():
    q, k, v = given(2, 3, 8, 4)
    assert used(q, k, v) == "one pass" and used(q[:, :, :2], k, v) == "math"
    with sdpa_kernel(B.MATH):
        assert used(q, k, v) == "math"
    for one_pass in (B.FLASH_ATTENTION, B.EFFICIENT_ATTENTION):
        with sdpa_kernel(one_pass):
            assert used(q, k, v) == "one pass" == used(q[:, :, :2], k, v)
    with sdpa_kernel([B.MATH, B.FLASH_ATTENTION], set_priority=True):
        assert used(q, k, v) == "math"
    with sdpa_kernel([B.FLASH_ATTENTION, B.MATH], set_priority=True):
        assert used(q[:, :, :2], k, v) == "one pass"
    mask = t.zeros(8, 8, requires_grad=True)
    assert used(q, k, v, attn_mask=mask) == "math" and used(q, k, v, attn_mask=mask.detach()) == "one pass"
    wanted = F.scaled_dot_product_attention(q, k, v).numpy()
    for backend in (B.MATH, B.FLASH_ATTENTION):
        with sdpa_kernel(backend):
            np.testing.assert_allclose(F.scaled_dot_product_attention(q, k, v).numpy(), wanted, rtol=1e-5, atol=1e-6)


def test_nothing_possible():
    q, k, v = given(2, 3, 8, 4)
    for backends in ([], B.CUDNN_ATTENTION, B.OVERRIDEABLE):
        with sdpa_kernel(backends):
            text, said = refused(lambda: F.scaled_dot_product_attention(q, k, v))
            assert "math attention is not used: it is switched off" in text and len(said) == 4
            assert [w.split()[1] for w in said] == ["flash", "mem_efficient", "math", "cudnn"]
    with sdpa_kernel(B.CUDNN_ATTENTION):
        assert "cudnn attention is not used: it computes on CUDA devices" in refused(
            lambda: F.scaled_dot_product_attention(q, k, v)
        )[0]
    with sdpa_kernel([B.FLASH_ATTENTION, B.EFFICIENT_ATTENTION]):
        mask = t.zeros(8, 8, requires_grad=True)
        assert "requires a gradient" in refused(lambda: F.scaled_dot_product_attention(q, k, v, attn_mask=mask))[0]
        assert "vmap" in refused(lambda: t.vmap(F.scaled_dot_product_attention)(q, k, v))[0]
        assert "below 1" in refused(lambda: F.scaled_dot_product_attention(q, k, v, dropout_p=1.0))[0]


def test_can_use():
    q, k, v = given(2, 3, 8, 4)
    params = cuda.SDPAParams(q, k, v, None, 0.0, False, False)
    assert params.query is q and params.attn_mask is None and params.enable_gqa is False
    for can in (cuda.can_use_flash_attention, cuda.can_use_efficient_attention, cuda.can_use_cudnn_attention):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert can(params) is False  # these ask about CUDA devices
        with pytest.warns(UserWarning, match="not on a CUDA device"):
            assert can(params, debug=True) is False
    with pytest.raises(TypeError):
        cuda.SDPAParams(q, k, v, None, 0.0, False)
