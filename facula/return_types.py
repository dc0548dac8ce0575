"""The named tuples that ops with several results give: `facula.return_types.max`, ..."""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula import _C

if TYPE_CHECKING:
    from typing import Any

# The core makes a type when its op first returns one; for those asked for earlier, a call that does.
_CALLS = {
    "aminmax": lambda x: _C.aminmax(x),
    "cummax": lambda x: _C.cummax(x, 0),
    "cummin": lambda x: _C.cummin(x, 0),
    "frexp": lambda x: _C.frexp(x),
    "geqrf": lambda x: _C.geqrf(x),
    "histogram": lambda x: _C.histogram(x, 1),
    "kthvalue": lambda x: _C.kthvalue(x, 1, 0),
    "linalg_cholesky_ex": lambda x: _C.linalg.cholesky_ex(x),
    "linalg_eig": lambda x: _C.linalg.eig(x),
    "linalg_eigh": lambda x: _C.linalg.eigh(x),
    "linalg_inv_ex": lambda x: _C.linalg.inv_ex(x),
    "linalg_ldl_factor": lambda x: _C.linalg.ldl_factor(x),
    "linalg_ldl_factor_ex": lambda x: _C.linalg.ldl_factor_ex(x),
    "linalg_lstsq": lambda x: _C.linalg.lstsq(x, x),
    "linalg_lu": lambda x: _C.linalg.lu(x),
    "linalg_lu_factor": lambda x: _C.linalg.lu_factor(x),
    "linalg_lu_factor_ex": lambda x: _C.linalg.lu_factor_ex(x),
    "linalg_qr": lambda x: _C.linalg.qr(x),
    "linalg_slogdet": lambda x: _C.linalg.slogdet(x),
    "linalg_solve_ex": lambda x: _C.linalg.solve_ex(x, x),
    "linalg_svd": lambda x: _C.linalg.svd(x),
    "lu_unpack": lambda x: _C.lu_unpack(*_C.linalg.lu_factor(x)),
    "max": lambda x: _C.max(x, 0),
    "median": lambda x: _C.median(x, 0),
    "min": lambda x: _C.min(x, 0),
    "mode": lambda x: _C.mode(x, 0),
    "nanmedian": lambda x: _C.nanmedian(x, 0),
    "qr": lambda x: _C.qr(x),
    "sort": lambda x: _C.sort(x, 0),
    "svd": lambda x: _C.svd(x),
    "topk": lambda x: _C.topk(x, 1, 0),
    "triangular_solve": lambda x: _C.triangular_solve(x, x),
}


def pytree_register_structseq(cls: type) -> None:
    """Lets trees of containers (`utils._pytree`) go through the named tuples of a class."""
    from facula.utils import _pytree

    _pytree.register_pytree_node(cls, lambda value: (list(value), None), lambda parts, _: cls(parts))


def __getattr__(name: str) -> Any:
    if name == "all_return_types":
        return [__getattr__(key) for key in sorted(_CALLS)]
    if name in _CALLS and not hasattr(getattr(_C, "return_types", None), name):
        _CALLS[name](_C.ones(1, 1))
    kinds = getattr(_C, "return_types", None)
    if not hasattr(kinds, name):
        raise AttributeError(f"module 'facula.return_types' has no attribute {name!r}")
    return getattr(kinds, name)
