"""Define Op, an op as its entry in the schema states it, and the error of an entry that breaks the grammar."""

from __future__ import annotations

from dataclasses import dataclass

from .schema_words import CPP_TYPES, ELEMENTWISE, RETURN_TYPES, SPARSE, TENSOR_TYPES


class SchemaError(Exception):
    """Report an entry of ops/*.yaml that breaks the grammar of ops/README.md."""


@dataclass(frozen=True)
class Location:
    file: str
    line: int

    def error(self, key: str, text: str) -> SchemaError:
        return SchemaError(f"{self.file}:{self.line}: {key}: {text}")


@dataclass(frozen=True)
class Argument:
    type: str  # a key of CPP_TYPES
    name: str
    default: str | None  # source text, None: required
    keyword_only: bool
    list_size: int = 0  # int[N]: a single int stands for N of them

    @property
    def is_tensor(self) -> bool:
        return self.type in TENSOR_TYPES

    @property
    def cpp_type(self) -> str:
        return CPP_TYPES[self.type]

    @property
    def none_is_default(self) -> bool:
        """Return whether Python may pass None for sizes and dimensions that are empty by default."""
        return self.type == "int[]" and self.default == "[]"


@dataclass(frozen=True)
class Op:
    name: str
    overload: str
    args: tuple[Argument, ...]
    returns: tuple[str, ...]  # keys of RETURN_TYPES
    return_names: tuple[str, ...]  # empty for a single unnamed return
    kind: str
    topic: str
    location: Location
    dtypes: tuple[str, ...]
    result: str
    scalar: str | None
    loop: str  # one of LOOPS, or ""
    roles: tuple[str, ...]  # some of ROLES
    quick: tuple[str, ...]  # a quick form of the scalar function, and the test that says where it does not hold; or none
    names: tuple[str, ...]
    variants: tuple[str, ...]
    grad: dict[str, str] | None
    grad_together: tuple[tuple[str, ...], ...]  # arguments whose gradients one formula gives, as a tuple
    reference: str | None
    doc: str
    argument_docs: dict[str, str]  # what docstrings say of arguments, where the common table says too little
    returned: str  # what docstrings say of the results, mostly their shapes, where the kind implies less
    errors: str  # what docstrings say of errors, beyond what the kind implies
    example: str  # lines of an interpreter session, which is run as a test; or ""
    samples: object
    signature: str
    autocast: dict[str, str]  # device type -> one of AUTOCAST
    batch: str | None  # the rule inside vmap, where the kind does not imply it
    checks: tuple[str, ...]  # some of CHECKS
    no_gradient: tuple[str, ...]  # the last results, which have no derivative
    direct_inplace: bool  # the in-place form has a raw function of its own
    inplace_keeps_result: bool  # written in place, the derivative takes the result for the argument
    out_casts: bool  # `out=` may have another dtype that the result can be cast to
    python_only: tuple[str, ...]  # arguments that C++ does not see
    keeps_layout: bool  # takes and gives tensors whose private layout nobody sees (core/tensor.h)
    aten: str  # PyTorch's name, "softmax.int"; several by operands, "TT:pow.Tensor_Tensor ..."; "-": it has none
    draws: bool  # may draw random numbers
    sparse: tuple[str, ...]  # the way it takes sparse tensors, first; none: it refuses them
    aliases: bool  # results may share memory with arguments
    unordered: bool  # devices with many threads may add up in another order next time
    writes: tuple[str, ...]  # arguments that it writes to, besides the first of what is named with an underscore

    @property
    def public_name(self) -> str:
        """Return the name that errors use: without the underscore of a part of other ops, or of a name that C++ reserves."""
        if not self.name.startswith("_") or self.name in self.names:
            return self.name
        return next((name for name in self.names if not name.startswith("_")), self.name.lstrip("_"))

    @property
    def id(self) -> str:
        return f"{self.name}_{self.overload}" if self.overload else self.name

    @property
    def elementwise(self) -> bool:
        return self.kind in ELEMENTWISE

    @property
    def sparse_op(self) -> str | None:
        """The op that takes over, above autograd, where an argument is sparse."""
        return self.sparse[0] if self.sparse and self.sparse[0] not in SPARSE else None

    @property
    def written_as(self) -> str:
        """The name of a composite's hand-written function."""
        return f"{self.name}_uncast" if self.autocast else self.name

    @property
    def composite(self) -> bool:
        return self.kind == "composite"

    @property
    def inputs(self) -> tuple[Argument, ...]:
        """The tensor operands of an element-wise op."""
        return tuple(a for a in self.args if a.is_tensor)

    @property
    def params(self) -> tuple[Argument, ...]:
        """The numbers an element-wise op hands to its scalar function."""
        return tuple(a for a in self.args if not a.is_tensor)

    @property
    def tensor_returns(self) -> int:
        return sum(r == "Tensor" for r in self.returns)

    @property
    def fields(self) -> tuple[str, ...]:
        """The names that results have for users; none where the signature names none, and `return_names` are made up."""
        return () if self.return_names[:1] == ("result0",) else self.return_names

    @property
    def cpp_return(self) -> str:
        types = [RETURN_TYPES[r] for r in self.returns]
        if not types:
            return "void"
        return types[0] if len(types) == 1 else f"std::tuple<{', '.join(types)}>"

    @property
    def differentiable(self) -> bool:
        return bool(self.grad)
