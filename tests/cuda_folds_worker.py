"""Folds on a CUDA device beside those of the CPU, of layouts that kernels take different ways for: `python cuda_folds_worker.py CASE ...` prints
what differs, and a checksum of the bits of all results."""

import sys
import zlib

import numpy as np

import facula

rng = np.random.default_rng(5)


def numbers(dtype, *shape):
    """Numbers that are exact in the dtype, and whose sums are so in float32, on the CPU."""
    few = 4 if dtype in (facula.int8, facula.uint8, facula.bool) else 9
    made = rng.integers(0 if dtype in (facula.uint8, facula.bool) else -few, few, shape)
    if dtype.is_complex:
        made = made + 1j * rng.integers(-few, few, shape)
    return facula.tensor(made).to(dtype)


def full(dtype):
    """Yield (tensor, dims): everything, in one part and in several, with rests and at odd addresses."""
    for n in (0, 1, 7, 8, 9, 33, 1023, 1024, 1025, 4096, 16384, 33333, 70001):
        yield numbers(dtype, n), None
    for n in (9, 1023, 33333):
        yield numbers(dtype, n + 1)[1:], None
        yield numbers(dtype, n, 2)[:, 1], None
    yield numbers(dtype, 130, 257).t(), None
    yield numbers(dtype, 60, 30, 40)[:, ::2, 1:], None
    yield numbers(dtype, 6, 5, 4, 3, 7)[:, ::2, 1:, :, ::3], None
    yield numbers(dtype, 1, 300).expand(70, 300), None


def rows(dtype):
    """Yield rows of all kinds of lengths, of one or two dimensions, with rests and at odd addresses."""
    for n in (0, 1, 3, 8, 9, 64, 65, 128, 1000, 1024, 1025, 2500):
        yield numbers(dtype, 11, n), 1
        yield numbers(dtype, 11, n + 2)[:, 1:-1], 1
    for shape in ((3, 17001), (2, 33024), (40, 4096), (700, 5)):
        yield numbers(dtype, *shape), 1
    for shape in ((5, 4, 36), (5, 4, 0), (0, 4, 6)):
        yield numbers(dtype, *shape), (0, 2)
    yield numbers(dtype, 9, 4, 7, 7), (0, 2, 3)
    yield numbers(dtype, 40, 3, 32, 32), (0, 2, 3)
    yield numbers(dtype, 40, 300)[:, ::3], 1
    yield numbers(dtype, 6, 5, 4, 30)[:, :, 1:, ::2], (0, 3)
    yield numbers(dtype, 3, 5, 4, 30)[:, ::2, 1:, ::2], (0, 1, 3)


def columns(dtype):
    """Yield columns: few and many, of few and many rows, of several dimensions."""
    for shape in ((33, 64), (700, 3), (2000, 16), (500, 130), (9, 1100), (3, 2048), (1000, 1)):
        yield numbers(dtype, *shape), 0
        yield numbers(dtype, shape[0], shape[1] + 1)[:, 1:], 0
    yield numbers(dtype, 5, 70, 48), 1
    yield numbers(dtype, 300, 6, 8), 1
    yield numbers(dtype, 50, 4, 9, 32), (0, 2)
    yield numbers(dtype, 20, 3, 9, 40)[:, :, ::2, ::2], (0, 2)
    yield numbers(dtype, 6, 3, 9, 5, 34)[:, :, ::2, :, 1:], (0, 2, 3)
    yield numbers(dtype, 70, 40).t(), 1
    yield numbers(dtype, 40, 30, 8).transpose(1, 2), 0
    yield numbers(dtype, 3000, 40), 0
    yield numbers(dtype, 0, 40), 0
    yield numbers(dtype, 0, 3, 5)[:, :, 1:], (0, 1)


LAYOUTS = {"full": full, "rows": rows, "columns": columns}
WHOLE = (facula.int8, facula.uint8, facula.int16, facula.int32, facula.int64)


def over(function, **more):
    """A fold of the dims."""
    return lambda x, dim: function(x, dim=dim, **more) if dim is not None else function(x, dim=tuple(range(x.ndim)), **more)


def placed(function):
    """The values and positions of extrema over one dim, as numbers."""

    def both(x, dim):
        values, places = function(x.flatten(), 0) if dim is None else function(x, dim if isinstance(dim, int) else dim[0])
        return values.double() + 100.0 * places.double()

    return both


SUMS = {"sum": over(facula.sum)}
PARTS = {"sum": over(facula.sum), "std": over(facula.std)}  # of one number, and of several
OTHERS = {
    "mean": over(facula.mean), "nansum": over(facula.nansum), "var": over(facula.var, correction=0), "std": over(facula.std),
    "norm 2": over(facula.linalg.vector_norm, ord=2), "norm 3": over(facula.linalg.vector_norm, ord=3),
    "norm 1": over(facula.linalg.vector_norm, ord=1), "sum in float64": over(facula.sum, dtype=facula.float64),
}  # fmt: skip
EXTREMA = {"amax": over(facula.amax), "amin": over(facula.amin), "max": placed(facula.max), "min": placed(facula.min)}
TRUTH = {"any": over(facula.any), "all": over(facula.all), "count": over(facula.count_nonzero)}

CASES = {
    "one": ((facula.float32,), PARTS),
    "sums": ((facula.bfloat16, facula.float64, facula.int8, facula.complex64, facula.bool), SUMS),
    "more sums": ((facula.float16, *WHOLE[1:], facula.complex128), SUMS),
    "others": ((facula.float32,), OTHERS),
    "more others": ((facula.bfloat16, facula.float64), OTHERS),
    "extrema": ((facula.float32, facula.int32), EXTREMA),
    "more extrema": ((facula.float64, facula.bfloat16, facula.int8, facula.int64), EXTREMA),
    "truth": ((facula.bool, facula.float32), TRUTH),
    "more truth": ((facula.uint8, facula.complex64), TRUTH),
}


TOLERANCE = {facula.float16: 2e-3, facula.bfloat16: 1e-2, facula.float64: 1e-12, facula.complex128: 1e-12}


def differences(got, wanted):
    """Return what to say of two results."""
    if got.dtype != wanted.dtype or got.shape != wanted.shape:
        return f"{got.dtype} {tuple(got.shape)} instead of {wanted.dtype} {tuple(wanted.shape)}"
    if facula.allclose(got, wanted, rtol=TOLERANCE.get(got.dtype, 1e-5), atol=1e-5, equal_nan=True):
        return ""
    return f"{got.flatten()[:4].tolist()} instead of {wanted.flatten()[:4].tolist()}"


def main(layout, *names):
    """Run the cases of a layout."""
    total = 0
    for name in names:
        dtypes, folds = CASES[name]
        for dtype in dtypes:
            for number, (x, dim) in enumerate(LAYOUTS[layout](dtype)):
                for fold, function in folds.items():
                    if x.numel() == 0 and (folds is EXTREMA or fold in ("var", "std")):
                        continue
                    got, wanted = function(on_device(x), dim).cpu(), function(x, dim)
                    total = zlib.crc32(got.reshape(-1).view(facula.uint8).numpy().tobytes(), total)
                    if said := differences(got, wanted):
                        print(f"{layout} {number} {tuple(x.shape)} {fold} {dtype}: {said}", flush=True)
    print(total)


def on_device(x):
    """A tensor as `x` there, which lies as it does."""
    whole = facula.empty(x.untyped_storage().nbytes() // x.element_size(), dtype=x.dtype)
    whole.untyped_storage().copy_(x.untyped_storage())
    return whole.cuda().as_strided(x.shape, x.stride(), x.storage_offset())


if __name__ == "__main__":
    main(*sys.argv[1:])
