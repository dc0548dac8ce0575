"""Complex numbers in files of ONNX, which has none: pairs of tensors within a model, a last dimension of two at its ends."""

import numpy as np
import onnx_reader
import pytest
from test_onnx_ops import Call, computed, same

import facula
from facula.nn import functional as F


def signal(*shape):
    return facula.from_numpy(np.random.default_rng(7).normal(size=shape).astype("f4"))


REAL = facula.view_as_real
SPECTRA = {
    "rfft": (lambda x: REAL(facula.fft.rfft(x)), signal(3, 8)),
    "fft": (lambda x: REAL(facula.fft.fft(x, dim=0, norm="ortho")), signal(6, 3)),
    "rfft_long": (lambda x: REAL(facula.fft.rfft(x)), signal(2, 200)),
    "irfft_long": (lambda x: facula.fft.irfft(facula.fft.rfft(x) * 2), signal(2, 200)),
    "fft_padded": (lambda x: REAL(facula.fft.fft(x, n=12)), signal(2, 8)),
    "ifft": (lambda x: facula.fft.ifft(facula.fft.fft(x)).real, signal(2, 5)),
    "irfft": (lambda x: facula.fft.irfft(facula.fft.rfft(x)), signal(2, 8)),
    "irfft_odd": (lambda x: facula.fft.irfft(facula.fft.rfft(x), n=7, norm="forward"), signal(2, 7)),
    "hfft": (lambda x: facula.fft.hfft(facula.view_as_complex(x)), signal(2, 5, 2)),
    "ihfft": (lambda x: REAL(facula.fft.ihfft(x)), signal(2, 6)),
    "fft2": (lambda x: facula.fft.fft2(x).abs(), signal(2, 4, 6)),
    "rfftn": (lambda x: REAL(facula.fft.irfftn(facula.fft.rfftn(x)) * (1 + 2j)), signal(2, 4, 6)),
    "stft": (lambda x: facula.stft(x, 8, return_complex=False), signal(40)),
    "stft_magnitude": (lambda x: facula.stft(x, 8, window=facula.hann_window(8), return_complex=True).abs(), signal(40)),
    "istft": (lambda x: facula.istft(facula.stft(x, 8, return_complex=True) * 2, 8, length=40), signal(40)),
    "filter": (lambda x: facula.fft.irfft(facula.fft.rfft(x) * facula.polar(facula.ones(5), facula.arange(5.0))), signal(2, 8)),
    "arithmetic": (lambda x: REAL((facula.complex(x, x * 2).exp() / (2 - 1j)).conj().reshape(6) + 1j), signal(2, 3)),
    "angle": (lambda x: facula.view_as_complex(x).angle(), signal(5, 2)),
}


@pytest.mark.parametrize("opset", [18, 21])
@pytest.mark.parametrize("name", SPECTRA)
def test_complex_numbers_within(name, opset):
    function, *args = SPECTRA[name]
    same(*computed(function, *args, opset=opset))


Z, W = (facula.view_as_complex(signal(*shape)) for shape in ((2, 3, 2), (2, 3, 2, 2)))
LINE, OTHER = facula.view_as_complex(signal(3, 2)), facula.view_as_complex(signal(4, 3, 2))[1]
MASK = facula.tensor([[True, False, True], [False, False, True]])
FUNCTIONS = {
    "numbers": (lambda z: (z + 1.0, 1.0 - z, z - 2, 3 / z, z * 2.0, z / 2, z + (1 - 2j), facula.add(z, z, alpha=2j)), Z),
    "real tensors": (lambda z, x: (z + x, x - z, z * x, x / z, z / x), Z, signal(2, 3)),
    "whole tensors": (lambda z, n: (z * n, z + n), Z, facula.tensor([1, 2, 3])),
    "chosen": (lambda z, m: (z.masked_fill(m, 2.0), facula.where(m, z, 1.0), facula.where(m, 2, z), z.masked_select(m)), Z, MASK),
    "filled": (lambda z: (F.pad(z, (1, 2), value=3.0), z.index_fill(1, facula.tensor([0]), 2), facula.zeros_like(z)), Z),
    "exponentials": (lambda z: (z.exp(), z.expm1(), z.exp2(), z.log(), z.log2(), z.log10(), z.log1p()), Z),
    "powers": (lambda z: (z.sqrt(), z.rsqrt(), z.square(), z**2, z**0.5, z**-1, 2**z, z**z, z.reciprocal()), Z),
    "angles": (lambda z: (z.sin(), z.cos(), z.tan(), z.sinh(), z.cosh(), z.tanh(), z.sgn(), z.abs(), z.angle()), Z),
    "activations": (lambda z: (z.sigmoid(), F.silu(z), F.softsign(z), F.tanhshrink(z)), Z),
    "products": (lambda z, w: (z @ w, facula.einsum("ab,cbd->acd", z, w), facula.inner(z, z), facula.kron(z, z)), Z, W),
    "lines": (lambda a, b: (a.dot(b), facula.vdot(a, b), facula.outer(a, b), linear(a, b), facula.linalg.cross(a, b)), LINE, OTHER),
    "sums of products": (lambda z: (facula.addmm(z @ z.mT, z, z.mT, beta=2j, alpha=0.5), facula.addcmul(z, z, z, value=2)), Z),
    "windows": (lambda z, w: F.conv2d(z, w, W[0, :2, 0]), *map(facula.view_as_complex, (signal(1, 3, 4, 4, 2), signal(2, 3, 2, 2, 2)))),
    "truth": (lambda z: (z == z[0], z != z.real, z.isnan(), z.isfinite(), z.isreal(), z.any(1), z.all(), z.logical_not()), Z),
    "sizes": (lambda z: (z.norm(), facula.linalg.vector_norm(z, dim=1), z.var(1), z.std(), facula.var_mean(z, 0)), Z),
    "parts": (lambda z: (z.T, z.sum(0), z.diff(), facula.cat([z, z.conj()]), z.reshape(3, 2)[1:], z.real, z.imag), Z),
    "sums in places": (lambda z: z.index_add(1, facula.tensor([2, 0]), z[:, :2]), Z),
}


def linear(a, b):
    return F.linear(a, facula.stack([b, b * 2]), b[:2])


def parts(tensor):
    return (facula.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor).numpy()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_complex_numbers_outside(name):
    function, *args = FUNCTIONS[name]
    model = onnx_reader.Model(facula.onnx.export(Call(function), tuple(args), opset_version=21).serialize())
    got = model.run(**{name: parts(a) for name, a in zip(model.inputs, args)})
    same(got, [parts(t) for t in facula.utils._pytree.tree_leaves(function(*args))])


def test_complex_lines_of_a_length_that_varies():
    function = Call(lambda z: z.reshape(1, z.shape[0]).conj() * 2)
    program = facula.onnx.export(function, (facula.rand(4, dtype=facula.complex64),), dynamic_shapes=(({0: "n"},),))
    model, z = onnx_reader.Model(program.serialize()), facula.rand(10, dtype=facula.complex64)
    same(model.run(**{next(iter(model.inputs)): parts(z)}), [parts(function(z))])


def test_square_roots_keep_small_parts():
    z = facula.tensor([1 + 1e-6j, -1 + 1e-6j, -1 - 1e-6j, 0j])
    model = onnx_reader.Model(facula.onnx.export(Call(facula.sqrt), (z,)).serialize())
    np.testing.assert_allclose(model.run(**{next(iter(model.inputs)): parts(z)})[0], parts(z.sqrt()), rtol=1e-5)


def test_what_complex_numbers_have_not():
    with pytest.raises(NotImplementedError, match=r"^onnx\.export: no translation to ONNX of aten::acos of complex numbers"):
        facula.onnx.export(Call(lambda x: facula.fft.fft(x).acos().real), (facula.ones(2),))
    with pytest.raises(NotImplementedError, match=r"^onnx\.export: einsum of 3 complex tensors"):
        facula.onnx.export(Call(lambda z: facula.einsum("a,a,a->a", z, z, z)), (LINE,))
