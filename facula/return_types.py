"""The named tuples that ops with several results give: `facula.return_types.max`, ..."""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula import _C

if TYPE_CHECKING:
    from typing import Any

# The core makes a type when its op first returns one; for those asked for earlier, a call that does. Results written to
# `out=` have types of their own.
_CALLS = {
    "aminmax": lambda x, **out: _C.aminmax(x, **out),
    "cummax": lambda x, **out: _C.cummax(x, 0, **out),
    "cummin": lambda x, **out: _C.cummin(x, 0, **out),
    "frexp": lambda x, **out: _C.frexp(x, **out),
    "geqrf": lambda x, **out: _C.geqrf(x, **out),
    "histogram": lambda x, **out: _C.histogram(x, 1, **out),
    "kthvalue": lambda x, **out: _C.kthvalue(x, 1, 0, **out),
    "linalg_cholesky_ex": lambda x, **out: _C.linalg.cholesky_ex(x, **out),
    "linalg_eig": lambda x, **out: _C.linalg.eig(x, **out),
    "linalg_eigh": lambda x, **out: _C.linalg.eigh(x, **out),
    "linalg_inv_ex": lambda x, **out: _C.linalg.inv_ex(x, **out),
    "linalg_ldl_factor": lambda x, **out: _C.linalg.ldl_factor(x, **out),
    "linalg_ldl_factor_ex": lambda x, **out: _C.linalg.ldl_factor_ex(x, **out),
    "linalg_lstsq": lambda x, **out: _C.linalg.lstsq(x, x, **out),
    "linalg_lu": lambda x, **out: _C.linalg.lu(x, **out),
    "linalg_lu_factor": lambda x, **out: _C.linalg.lu_factor(x, **out),
    "linalg_lu_factor_ex": lambda x, **out: _C.linalg.lu_factor_ex(x, **out),
    "linalg_qr": lambda x, **out: _C.linalg.qr(x, **out),
    "linalg_slogdet": lambda x, **out: _C.linalg.slogdet(x, **out),
    "linalg_solve_ex": lambda x, **out: _C.linalg.solve_ex(x, x, **out),
    "linalg_svd": lambda x, **out: _C.linalg.svd(x, **out),
    "lu_unpack": lambda x, **out: _C.lu_unpack(*_C.linalg.lu_factor(x), **out),
    "max": lambda x, **out: _C.max(x, 0, **out),
    "median": lambda x, **out: _C.median(x, 0, **out),
    "min": lambda x, **out: _C.min(x, 0, **out),
    "mode": lambda x, **out: _C.mode(x, 0, **out),
    "nanmedian": lambda x, **out: _C.nanmedian(x, 0, **out),
    "qr": lambda x, **out: _C.qr(x, **out),
    "sort": lambda x, **out: _C.sort(x, 0, **out),
    "svd": lambda x, **out: _C.svd(x, **out),
    "topk": lambda x, **out: _C.topk(x, 1, 0, **out),
    "triangular_solve": lambda x, **out: _C.triangular_solve(x, x, **out),
}


def pytree_register_structseq(cls: type) -> None:
    """Lets trees of containers (`utils._pytree`) go through the named tuples of a class."""
    from facula.utils import _pytree

    _pytree.register_pytree_node(cls, lambda value: (list(value), None), lambda parts, _: cls(parts))


def __getattr__(name: str) -> Any:
    if name == "all_return_types":
        return [__getattr__(key) for key in sorted([*_CALLS, *(f"{plain}_out" for plain in _CALLS)])]
    plain = name.removesuffix("_out")
    if plain in _CALLS and not hasattr(getattr(_C, "return_types", None), name):
        made = _CALLS[plain](_C.ones(1, 1))
        if name != plain:
            _CALLS[plain](_C.ones(1, 1), out=tuple(made))
    kinds = getattr(_C, "return_types", None)
    if not hasattr(kinds, name):
        raise AttributeError(f"module 'facula.return_types' has no attribute {name!r}")
    return getattr(kinds, name)
