"""The same values in other layouts of memory. A reproducing program is preamble.py, this file and one more line."""

from .preamble import facula, np, tensors_in, x

POISON = 119.0  # between and around the values


def relaid(a, layout):
    """(a tensor with the values of `a` in the layout, the tensor of all memory around it)."""
    shape, poison = tuple(a.shape), POISON if a.dtype != facula.bool else True
    made = a.dim() and LAYOUTS[layout](a, shape, poison)
    if not made:  # the layout has no meaning for this shape
        return LAYOUTS["offset"](a, shape, poison)
    return made


def _filled(shape, like, poison):
    return facula.full(shape, poison, dtype=like.dtype)


def _gaps(a, shape, poison):
    buffer = _filled((*shape[:-1], 2 * shape[-1] + 1), a, poison)
    view = buffer[..., 1::2]
    return view.copy_(a), buffer


def _wide_gaps(a, shape, poison):
    buffer = _filled([3 * n + 2 for n in shape], a, poison)
    view = buffer[tuple(slice(1, 3 * n + 1, 3) for n in shape)]
    return view.copy_(a), buffer


def _transposed(a, shape, poison):
    order = tuple(reversed(range(a.dim())))
    buffer = a.permute(order).contiguous()
    return buffer.permute(order), buffer


def _rotated(a, shape, poison):
    order = (*range(1, a.dim()), 0)
    buffer = a.permute((a.dim() - 1, *range(a.dim() - 1))).contiguous()
    return buffer.permute(order), buffer


def _offset(a, shape, poison):
    buffer = _filled((a.numel() + 7,), a, poison)
    view = buffer[3 : 3 + a.numel()].view(shape)
    return view.copy_(a), buffer


def _channels_last(a, shape, poison):
    if a.dim() not in (4, 5):
        return None
    buffer = a.contiguous(memory_format=facula.channels_last if a.dim() == 4 else facula.channels_last_3d)
    return buffer, buffer


def _odd_ones(a, shape, poison):
    """Any stride may stand in a dimension of size one."""
    if 1 not in shape:
        return None
    view, buffer = _offset(a, shape, poison)
    odd = iter([0, 7, 2**40, 1] * len(shape))
    strides = [next(odd) if n == 1 else s for n, s in zip(shape, view.stride())]
    return view.as_strided(shape, strides), buffer


def _negative(a, shape, poison):
    buffer = a.flip(tuple(range(a.dim()))).contiguous()
    return buffer[(slice(None, None, -1),) * a.dim()], buffer


def _negative_last(a, shape, poison):
    buffer = _filled((*shape[:-1], shape[-1] + 2), a, poison)
    buffer[..., 1 : 1 + shape[-1]].copy_(a.flip(-1))
    return buffer[..., 1 : 1 + shape[-1]][..., ::-1], buffer


def _column(a, shape, poison):
    buffer = _filled((*shape, 3), a, poison)
    return buffer[..., 1].copy_(a), buffer


def _expanded(a, shape, poison):
    """Dimensions along which all values are equal get the stride 0."""
    view = a.contiguous()
    for d in range(a.dim()):
        if shape[d] > 1 and a.numel() and bool((a == a.narrow(d, 0, 1)).all()):
            view = view.narrow(d, 0, 1).expand(view.shape[:d] + shape[d : d + 1] + view.shape[d + 1 :])
    return view, view


def _conjugated(a, shape, poison):
    if not a.is_complex():
        return None
    view = a.conj().resolve_conj().clone().conj()
    return view, view


def _numpy(a, shape, poison):
    if a.dtype in (facula.bfloat16, facula.complex32):
        return None
    array = a.resolve_conj().numpy()
    return facula.from_numpy(np.ascontiguousarray(array[..., ::-1])[..., ::-1]), facula.empty(0)


LAYOUTS = {
    "gaps": _gaps, "wide gaps": _wide_gaps, "transposed": _transposed, "rotated": _rotated, "offset": _offset, "channels last": _channels_last,
    "odd ones": _odd_ones, "negative": _negative, "negative last": _negative_last, "column": _column, "expanded": _expanded, "conjugated": _conjugated,
    "numpy": _numpy,
}  # fmt: skip
WRITABLE = [name for name in LAYOUTS if name not in ("expanded", "conjugated")]
TOLERANCE = {facula.float64: 1e-8, facula.complex128: 1e-8, facula.float32: 5e-4, facula.complex64: 5e-4, facula.float16: 3e-2, facula.complex32: 3e-2,
             facula.bfloat16: 2e-1}  # fmt: skip


def differ(expected, actual, scale=1.0):
    """What is different about two results, or None."""
    if isinstance(expected, facula.Tensor) and isinstance(actual, facula.Tensor):
        if expected.dtype != actual.dtype or expected.shape != actual.shape:
            return f"{tuple(expected.shape)} {expected.dtype} became {tuple(actual.shape)} {actual.dtype}"
        bound = TOLERANCE.get(expected.dtype, 0)
        e, a = expected.detach().resolve_conj(), actual.detach().resolve_conj()
        if e.dtype in (facula.bfloat16, facula.float16):
            e, a = e.float(), a.float()
        if e.dtype == facula.complex32:
            e, a = e.to(facula.complex64), a.to(facula.complex64)
        e, a = e.numpy(), a.numpy()
        if bound:
            with np.errstate(all="ignore"):
                size = np.abs(e[np.isfinite(e)]).max(initial=1.0) * scale
                # an overflow or a NaN may come a rounding earlier; everything else is equal
                fine = np.isclose(a, e, rtol=bound, atol=bound * size, equal_nan=True) | (~np.isfinite(a) & ~np.isfinite(e))
        else:
            fine = a == e
        if not np.all(fine):
            where = tuple(int(i) for i in np.argwhere(~np.asarray(fine))[0])
            return f"at {where} {e[where]} became {a[where]}"
        return None
    if isinstance(expected, (tuple, list)) and isinstance(actual, (tuple, list)) and len(expected) == len(actual):
        found = (differ(e, a, scale) for e, a in zip(expected, actual))
        return next((f"result {i}: {d}" for i, d in enumerate(found) if d), None)
    if isinstance(expected, (bool, int, float, complex, str, facula.Size, type(None))):
        close = isinstance(expected, float) and abs(expected - actual) <= 1e-4 * max(1, abs(expected))
        return None if expected == actual or expected != expected or close else f"{expected!r} became {actual!r}"
    return None if type(expected) is type(actual) else f"{type(expected)} became {type(actual)}"


def outside_of(view, buffer, before):
    """Whether memory of `buffer` that is not the view's has changed since it was `before`."""
    if buffer is view or buffer.numel() == 0 or view.untyped_storage().data_ptr() != buffer.untyped_storage().data_ptr():
        return None
    if any(s < 0 for s in view.stride()):
        return None
    before.as_strided(view.shape, view.stride(), view.storage_offset() - buffer.storage_offset()).copy_(view.detach())
    return None if differ(before, buffer.detach()) is None else "memory outside of the tensor was written to"


def evaluate(call, t, names, form, cotangents=None):
    """The results of a call, and of its backward pass. `call` is a text over t[0], t[1], ..."""
    facula.manual_seed(5)
    if form == "grad":
        t = [a.detach().requires_grad_() if a.is_floating_point() or a.is_complex() else a for a in t]
    result = eval(call, {**names, "t": t})
    if form == "inplace":
        return [t[0]]
    if form != "grad":
        return [result]
    found = [r for r in tensors_in(result) if r.requires_grad and (r.is_floating_point() or r.is_complex())]
    if not found:
        return [result]
    if cotangents is None:
        given = [facula.ones((), dtype=r.dtype).expand(r.shape) for r in found]
    else:
        given = [relaid(x(*r.shape, dtype=r.dtype), cotangents)[0] if i % 2 == 0 else x(*r.shape, dtype=r.dtype) for i, r in enumerate(found)]
    facula.autograd.backward(found, given)
    return [result, *(a.grad for a in t if a.requires_grad)]


# What solves with matrices, which may be nearly singular.
ILL_CONDITIONED = ("inv", "solve", "det", "lstsq", "cholesky")


def sensitive(call, plain, expected, form, cotangents):
    """Whether arguments that are a rounding away give other results too."""

    def rounded(a):
        if not (a.is_floating_point() or a.is_complex()):
            return a
        return a * (1 + facula.finfo(a.dtype).eps * x(*a.shape).sign().to(a.dtype))

    try:
        return differ(expected, evaluate(call, [rounded(a) for a in plain], globals(), form, None if cotangents is None else "offset"))
    except Exception:
        return False


def same(call, t, layouts, form="value", cotangents=None):
    """Raises AssertionError where a call gives something else for its tensors in other layouts."""
    names = globals()
    plain = [a.contiguous().clone() for a in t]
    moved = shared(t) if "shared" in layouts else [relaid(a, layout) for a, layout in zip(t, layouts)]
    before = [buffer.detach().clone(memory_format=facula.preserve_format) for _, buffer in moved]
    try:
        expected = evaluate(call, plain, names, form, None if cotangents is None else "offset")
    except Exception as error:
        expected = error
    try:
        actual = evaluate(call, [view for view, _ in moved], names, form, cotangents)
    except Exception as error:
        actual = error
    if isinstance(expected, Exception) or isinstance(actual, Exception):
        if type(expected) is not type(actual):
            raise AssertionError(f"{expected!r:.300} became {actual!r:.300}")
        return
    different = differ(expected, actual)
    if different and not (any(word in call for word in ILL_CONDITIONED) and sensitive(call, plain, expected, form, cotangents)):
        raise AssertionError(different)
    for i, ((view, buffer), old) in enumerate(zip(moved, before)):
        wrong = differ(plain[i], view) or outside_of(view, buffer, old)
        if wrong:
            raise AssertionError(f"argument {i}: {wrong}")


def shared(t):
    """All tensors of one dtype interleaved in one block of memory."""
    made = []
    for dtype in dict.fromkeys(a.dtype for a in t):
        chosen = [a for a in t if a.dtype == dtype]
        longest = max(a.numel() for a in chosen)
        block = facula.zeros(longest, len(chosen), dtype=dtype)
        for i, a in enumerate(chosen):
            block[: a.numel(), i] = a.flatten()
            strides = [s * len(chosen) for s in a.contiguous().stride()]
            made.append((a, block.as_strided(a.shape, strides, i)))
    return [(next(view for a, view in made if a is wanted), facula.empty(0)) for wanted in t]


def same_out(call, t, layouts, out_layouts):
    """As `same`, with out= in the layouts; `call` says out=out."""
    names = globals()
    facula.manual_seed(5)
    plain = [a.contiguous().clone() for a in t]
    try:
        expected = eval(call.replace("out=out", ""), {**names, "t": plain})
    except Exception:
        return
    results = list(expected) if isinstance(expected, tuple) else [expected]
    if not all(isinstance(r, facula.Tensor) for r in results):
        return
    moved = [relaid(r.detach() * 0 if r.dtype != facula.bool else r.detach().clone(), layout) for r, layout in zip(results, out_layouts * len(results))]
    before = [buffer.clone(memory_format=facula.preserve_format) for _, buffer in moved]
    targets = [view for view, _ in moved]
    facula.manual_seed(5)
    given = [relaid(a, layout)[0] for a, layout in zip(t, layouts)]
    try:
        eval(call, {**names, "t": given, "out": tuple(targets) if isinstance(expected, tuple) else targets[0]})
    except Exception as error:
        raise AssertionError(f"a result became {error!r:.300}") from error
    different = differ(results, targets)
    if different:
        raise AssertionError(different)
    for (view, buffer), old in zip(moved, before):
        written = outside_of(view, buffer, old)
        if written:
            raise AssertionError(f"out=: {written}")
