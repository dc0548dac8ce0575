"""Register operators that programs define: Python functions, and kernels of C++ libraries, called as
`torch.ops.<namespace>.<name>`.

`_operators/custom.py` says which of its kernels a call runs; here is every way to register one.

What libraries in C++ register (`TORCH_LIBRARY`) is taken over when an operator is next looked up. One of their kernels stands
for all of them: it chooses the one for the device of the arguments (src/program/custom.h). It has a schema, by which arguments
are bound, and can be combined with what is registered here.

Long because every way to register is a function of this module, with its docstring and example.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from facula._operators import native
from facula._operators.custom import (  # noqa: F401  (programs find the classes here)
    _CPU_KEYS,
    _RECORDED,
    AutoDispatchBelowAutograd,
    CustomOpDef,
    ExcludeDispatchKeyGuard,
)
from facula._shared.on_demand import _on_demand

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from facula._operators.opcheck import Kernel

__all__ = [
    "Library",
    "custom_op",
    "triton_op",
    "wrap_triton",
    "define",
    "impl",
    "impl_abstract",
    "fallthrough_kernel",
    "register_fake",
    "register_kernel",
    "register_autocast",
    "register_autograd",
    "register_torch_dispatch",
    "register_vmap",
]

_operators = {}


def take_over_operators() -> None:
    """Make operators known that libraries in C++ have registered; a RuntimeError says what was wrong with them."""
    native.take_over(_take_over)


def _take_over(name, schema, keys):
    qualified, _, overload = name.partition(".")
    op = _operators.setdefault(qualified, CustomOpDef(qualified))
    op._overloads[overload or "default"] = name
    op._schema = op._schema or schema
    op._native_keys.update(keys)
    differentiates = any(key.startswith("Autograd") for key in keys)
    if differentiates:
        op._set_native("Autograd", False)
    if {"CPU", "CUDA", "Meta", "CompositeExplicitAutograd"} & set(keys):
        op._set_native("CPU", differentiates)
    elif _RECORDED in keys:
        op._set_native(_RECORDED, False)


def find(namespace: str, name: str) -> CustomOpDef | None:
    """Return the operator registered as namespace::name, or None: what `torch.ops` asks."""
    take_over_operators()
    return _operators.get(f"{namespace}::{name.partition('.')[0]}")


def _operator(name):
    """Return the operator `name`, made when it does not exist yet."""
    name = name._qualname if isinstance(name, CustomOpDef) else str(name)
    name = name.partition("(")[0].partition(".")[0].strip()
    if "::" not in name:
        raise ValueError(f"library: an operator's name is namespace::name, got {name!r}")
    return _operators.setdefault(name, CustomOpDef(name))


def custom_op(name: str, fn: Callable[..., Any] | None = None, /, *, mutates_args: tuple[Any, ...] = (),
              device_types: str | None = None, schema: Any = None, tags: Any = None) -> Callable[..., Any]:  # fmt: skip
    """Make a function, or the decorated one, the operator `name`, which torch.ops reaches too.

    Args:
        name: "namespace::name".
        fn: the kernel; without, a decorator comes back.
        mutates_args, tags: kept as they are; an op's writes count whether they are announced or not.
        device_types: the kinds of devices that `fn` is the kernel for, a word or several; None for all.
        schema: its text, which nobody needs unless annotations do not tell it.

    Returns: the operator, whose methods `register_kernel`, `register_fake`, `register_autograd`, `register_vmap` and
    `register_autocast` complete it.

    Errors: NotImplementedError for an unknown kind of device.

    >>> @torch.library.custom_op("doc_ops::double", mutates_args=())
    ... def double(x: torch.Tensor) -> torch.Tensor:
    ...     return 2 * x
    >>> double(torch.ones(2)), torch.ops.doc_ops.double(torch.ones(2))
    (tensor([2., 2.]), tensor([2., 2.]))
    """

    def define_op(function):
        op = _operators[name] = CustomOpDef(name, function, schema or _said_by_annotations(function, mutates_args))
        op._mutates_args, op._tags = mutates_args, tags
        if device_types is not None:
            op._kernels.clear()
            op.register_kernel(device_types, function)
        return op

    return define_op if fn is None else define_op(fn)


def _said_by_annotations(function, mutates_args):
    """Return the schema by the annotations of a kernel; None where it has none, or ones that no schema has."""
    try:
        return infer_schema(function, mutates_args=mutates_args)
    except (ValueError, TypeError, NameError):
        return None


def triton_op(name: str, fn: Callable[..., Any] | None = None, /, *, mutates_args: Any, schema: Any = None) -> Any:
    """Return an operator, by custom_op: kernels of Triton are functions like others here, into which no compiler looks.

    Args:
        name: "namespace::name".
        fn: the kernel; without, a decorator comes back.
        mutates_args: kept as they are.
        schema: its text; None where nobody needs it.

    >>> @torch.library.triton_op("doc_ops::triple", mutates_args=())
    ... def triple(x: torch.Tensor) -> torch.Tensor:
    ...     return 3 * x
    >>> triple(torch.ones(2))
    tensor([3., 3.])
    """
    return custom_op(name, fn, mutates_args=mutates_args, schema=schema)


def wrap_triton(triton_kernel: Any, /) -> Any:
    """Give the kernel back as it is: there is no compiler that would have to see it.

    Args:
        triton_kernel: the kernel.

    >>> torch.library.wrap_triton(len) is len
    True
    """
    return triton_kernel


def define(qualname: str | Library, schema: Any = None, *, lib: Any = None, tags: Any = (), alias_analysis: str = "") -> Any:
    """Declare an operator; as a decorator, with the decorated function as its kernel for all devices.

    Args:
        qualname: "namespace::name"; or a Library, whose namespace it is.
        schema: the rest of the schema, such as "(Tensor x) -> Tensor"; None where nobody needs it. Beside a Library it begins
            with the name.
        lib, tags, alias_analysis: accepted; operators are of no Library in particular, and nothing here analyzes aliases.

    Errors: ValueError for a name without a namespace.

    >>> torch.library.define("doc_ops::half", "(Tensor x) -> Tensor")(lambda x: x / 2)(torch.ones(2))
    tensor([0.5000, 0.5000])
    >>> torch.ops.doc_ops.half(torch.ones(2))
    tensor([0.5000, 0.5000])
    """
    if isinstance(qualname, Library):
        qualname = f"{qualname.ns}::{qualname.define(schema)}"
    else:
        _operator(qualname)._schema = schema
    return lambda fn: (_operator(qualname).register_kernel(None, fn), fn)[1]


def impl(qualname: str | Library, types: Any, func: Any = None, *, lib: Any = None) -> Any:
    """Register a function, or the decorated one, as the kernel of an operator.

    Args:
        qualname: "namespace::name"; the operator is made when it does not exist yet. Or a Library; then the operator's name and
            a dispatch key follow, and a decorator comes back.
        types: "cpu", "cuda" and the like, or a sequence of these; "default" or None for all devices.
        func: the kernel; without, a decorator comes back.
        lib: accepted; operators are of no Library in particular.

    Errors: NotImplementedError for an unknown kind of device, ValueError for a name without a namespace.

    >>> _ = torch.library.define("doc_ops::negated", "(Tensor x) -> Tensor")
    >>> @torch.library.impl("doc_ops::negated", "cpu")
    ... def negated(x):
    ...     return -x
    >>> torch.ops.doc_ops.negated(torch.ones(2))
    tensor([-1., -1.])
    """
    if isinstance(qualname, Library):
        return lambda kernel: (qualname.impl(types, kernel, func or ""), kernel)[1]
    return _operator(qualname).register_kernel(types, func)


def register_kernel(op: Any, device_types: Any, func: Callable[..., Any] | None = None, /, *, lib: Any = None) -> Any:
    """Register a function, or the decorated one, as the kernel of an operator for kinds of devices.

    Args:
        op: "namespace::name", or what custom_op gave.
        device_types: "cpu", "cuda" and the like, or a sequence of these; None for all.
        func: the kernel; without, a decorator comes back.
        lib: accepted; operators are of no Library in particular.

    Errors: NotImplementedError for an unknown kind of device.

    >>> add = torch.library.custom_op("doc_ops::plus_one", lambda x: x + 1, mutates_args=(), device_types="cuda")
    >>> _ = torch.library.register_kernel("doc_ops::plus_one", "cpu", lambda x: x + 1)
    >>> add(torch.ones(2))
    tensor([2., 2.])
    """
    return _operator(op).register_kernel(device_types, func)


def register_fake(op: Any, func: Callable[..., Any] | None = None, /, *, lib: Any = None, _stacklevel: int = 1,
                  allow_override: bool = False) -> Callable[..., Any]:  # fmt: skip
    """Register a function, or the decorated one, that makes results of the right shape for tensors without values.

    It runs in the place of the kernel for fake tensors and those on the meta device.

    Args:
        op: "namespace::name", or what custom_op gave.
        func: the function; without, a decorator comes back.
        lib, allow_override: accepted; a later function takes the place of an earlier one.

    >>> pairs = torch.library.custom_op("doc_ops::pairs", lambda x: torch.cat([x, x]), mutates_args=())
    >>> _ = torch.library.register_fake("doc_ops::pairs", lambda x: x.new_empty(2 * x.shape[0]))
    >>> pairs(torch.empty(3, device="meta")).shape
    torch.Size([6])
    """
    return _operator(op).register_fake if func is None else _operator(op).register_fake(func)


impl_abstract = register_fake


def register_autograd(op: Any, backward: Any, /, *, setup_context: Any = None, lib: Any = None) -> None:
    """Register the derivative of an operator.

    Args:
        op: "namespace::name", or what custom_op gave.
        backward: (ctx, *gradients) -> the gradients of the arguments that can be given by position, None where there is none.
        setup_context: (ctx, inputs, output), which keeps what backward needs, by ctx.save_for_backward or as attributes; it
            gets `keyword_only_inputs` too where the kernel has such parameters. None for nothing.
        lib: accepted; operators are of no Library in particular.

    >>> square = torch.library.custom_op("doc_ops::square", lambda x: x * x, mutates_args=())
    >>> def setup_context(ctx, inputs, output):
    ...     ctx.save_for_backward(*inputs)
    >>> def backward(ctx, grad):
    ...     return 2 * ctx.saved_tensors[0] * grad
    >>> torch.library.register_autograd("doc_ops::square", backward, setup_context=setup_context)
    >>> x = torch.tensor(3., requires_grad=True)
    >>> square(x).backward()
    >>> x.grad
    tensor(6.)
    """
    _operator(op).register_autograd(backward, setup_context=setup_context)


def register_vmap(op: Any, func: Callable[..., Any] | None = None, /, *, lib: Any = None) -> Any:
    """Register a function, or the decorated one, that says what an operator does to a batch inside vmap.

    Args:
        op: "namespace::name", or what custom_op gave.
        func: (info, in_dims, *arguments) -> (output, out_dims), where info.batch_size is the size of the batch and in_dims
            tells for each argument which dimension it is, None for none. Without, a decorator comes back.
        lib: accepted; operators are of no Library in particular.

    >>> total = torch.library.custom_op("doc_ops::total", lambda x: x.sum(), mutates_args=())
    >>> _ = torch.library.register_vmap("doc_ops::total", lambda info, in_dims, x: (x.movedim(in_dims[0], 0).sum(1), 0))
    >>> torch.vmap(total)(torch.tensor([[1., 2.], [3., 4.]]))
    tensor([3., 7.])
    """
    return _operator(op).register_vmap(func)


def register_torch_dispatch(op: Any, torch_dispatch_class: Any, func: Callable[..., Any] | None = None, /, *, lib: Any = None,
                            allow_override: bool = False) -> Any:  # fmt: skip
    """Give the function back: it is never called, as tensors of classes with __torch_dispatch__ cannot be made.

    Args:
        op: "namespace::name", or what custom_op gave.
        torch_dispatch_class: the class or mode.
        func: the function; without, a decorator comes back.
        lib, allow_override: accepted.

    >>> _ = torch.library.custom_op("doc_ops::same", lambda x: x.clone(), mutates_args=())
    >>> torch.library.register_torch_dispatch("doc_ops::same", torch.Tensor, max) is max
    True
    """
    return _operator(op).register_torch_dispatch(torch_dispatch_class, func)


def register_autocast(op: Any, device_type: str, cast_inputs: Any, /, *, lib: Any = None) -> None:
    """Say in which dtype an operator is given its floating-point tensors inside an autocast region; it runs outside of it.

    Args:
        op: "namespace::name", or what custom_op gave.
        device_type: "cpu" or "cuda", the kind of the region.
        cast_inputs: the dtype.
        lib: accepted; operators are of no Library in particular.

    Errors: ValueError for a device_type that is no str.

    >>> again = torch.library.custom_op("doc_ops::again", lambda x: x.clone(), mutates_args=())
    >>> torch.library.register_autocast("doc_ops::again", "cpu", torch.bfloat16)
    >>> with torch.autocast("cpu"):
    ...     again(torch.ones(2)).dtype
    torch.bfloat16
    """
    _operator(op).register_autocast(device_type, cast_inputs)


def get_ctx() -> Any:
    """Return what a fake kernel may ask for sizes that nobody knows: an object whose `new_dynamic_size` raises.

    Errors: NotImplementedError from `new_dynamic_size`: shapes of fake tensors are known here.
    """
    return _FakeContext()


class _FakeContext:
    def new_dynamic_size(self, *, min=0, max=None):
        """Raise NotImplementedError: there are no sizes that depend on values here."""
        raise NotImplementedError(f"new_dynamic_size: sizes of fake tensors are known numbers, got min={min}, max={max}")

    create_unbacked_symint = new_dynamic_size


def infer_schema(prototype_function: Callable[..., Any], /, *, mutates_args: set[str] | str | tuple[Any, ...],
                 op_name: str | None = None) -> str:  # fmt: skip
    """Return the schema of a function by its annotations, such as "(Tensor x, SymInt n) -> Tensor".

    Args:
        prototype_function: annotated, or with annotations as text.
        mutates_args: names of the arguments that it writes to; "unknown": all tensors.
        op_name: put in front.

    Errors: ValueError for what has no annotation or one that a schema cannot say.
    """
    from ._operators.schemas import infer

    return infer(prototype_function, mutates_args, op_name)


def opcheck(
    op: Any, args: Any, kwargs: Any = None, *,
    test_utils: Any = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"),
    raise_exception: bool = True, atol: float | None = None, rtol: float | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Test whether an operator keeps to what it was registered with.

    Args:
        op: an operator of `custom_op`, or what `torch.ops` gives.
        args, kwargs: of a call.
        test_utils: which tests, or the name of one: whether it writes only to what its schema says, has a derivative where
            inputs require one, gives fake tensors of the right shape and dtype, and gives the same when it is recorded.
        raise_exception: raise what the first test that fails found; else it is in the result.
        atol, rtol: by which results may differ.

    Returns:
        {name: "SUCCESS" or the exception}.

    Errors: OpCheckError.
    """
    from ._operators.opcheck import check

    return check(op, args, kwargs or {}, test_utils, raise_exception, atol, rtol)


def get_kernel(op: Any, dispatch_key: str) -> Kernel:
    """Return the kernel of an operator for a key, such as "CPU": an object with `call_boxed(keys, *args)`.

    Errors: RuntimeError where there is none.
    """
    from ._operators.opcheck import Kernel

    return Kernel(find(*op.split("::", 1)) if isinstance(op, str) else op, dispatch_key)


def fallthrough_kernel() -> Any:
    """Stand for "no kernel of its own", a mark to be handed on; not a function to call.

    Errors: NotImplementedError when called.

    >>> torch.library.fallthrough_kernel()
    Traceback (most recent call last):
        ...
    NotImplementedError: fallthrough_kernel: it is a marker, not a function to call
    """
    raise NotImplementedError("fallthrough_kernel: it is a marker, not a function to call")


def custom_ops_impl(qualname: str, *, device_types: Sequence[str] = ("cpu", "cuda"),
                    func: Callable[..., Any] | None = None) -> Any:  # fmt: skip
    """Call `impl` by the name that it had before there was this module: `torch._custom_ops.impl`."""
    return _operator(qualname).register_kernel(device_types, func)


@contextlib.contextmanager
def _scoped_library(*args, **kwargs):
    """Give a Library whose operators go away with the block."""
    library = Library(*args, **kwargs)
    try:
        yield library
    finally:
        library._destroy()

__getattr__ = _on_demand(__name__)


class Library:
    """Define a namespace of operators, which are declared and given kernels one by one.

    Args:
        ns: its name.
        kind: "DEF", "IMPL" or "FRAGMENT"; all are alike here.
        dispatch_key: the key of kernels that `impl` is given none for; empty for all devices.

    >>> lib = torch.library.Library("doc_shop", "DEF")
    >>> lib.define("total(Tensor prices, float tax) -> Tensor")
    'total'
    >>> def total(prices, tax):
    ...     return prices.sum() * (1 + tax)
    >>> _ = lib.impl("total", total, "CPU")
    >>> torch.ops.doc_shop.total(torch.tensor([1., 3.]), 0.5)
    tensor(6.)
    """

    ns: str
    kind: str
    dispatch_key: str

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("DEF", "IMPL", "FRAGMENT"):
            raise ValueError(f"Library: kind must be DEF, IMPL or FRAGMENT, got {kind!r}")
        if ns == "prim" and kind != "IMPL":
            raise ValueError("Library: expected no reserved namespace, got 'prim'")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def _name(self, op):
        op = op.name() if hasattr(op, "overloadpacket") else getattr(op, "_qualified_op_name", getattr(op, "_qualname", op))
        return op if "::" in op else f"{self.ns}::{op}"

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Declare the operator of a schema; give its name.

        Args:
            schema: such as "add(Tensor a, Tensor b) -> Tensor".
            alias_analysis, tags: what PyTorch's compilers ask for; without effect.
        """
        op = _operator(self._name(schema.partition("(")[0]))
        op._schema = schema
        return op._name

    def impl(self, op_name: str, fn: Callable[..., Any], dispatch_key: str = "", *, with_keyset: bool = False,
             allow_override: bool = False) -> Callable[..., Any]:  # fmt: skip
        """Register a kernel; give it back.

        Args:
            op_name: the operator's name, with or without the namespace, or what torch.ops gives.
            fn: the kernel, called with the arguments of the operator.
            dispatch_key: "CPU", "CUDA", "Meta", "Autograd", "AutocastCPU", "CompositeImplicitAutograd" and the like;
                empty for that of the Library.
            with_keyset, allow_override: accepted; a kernel is given no keys, and a later one takes the place of an earlier one.

        Errors: NotImplementedError for a key that nothing here runs by, TypeError for what cannot be called, RuntimeError for
        another key than the Library's.
        """
        if not callable(fn):
            raise TypeError(f"Library.impl: expected a callable as fn, got {type(fn).__name__}")
        if dispatch_key and self.dispatch_key and dispatch_key != self.dispatch_key:
            raise RuntimeError(
                f"Library.impl: dispatch_key must be that of the Library, expected {self.dispatch_key}, "
                f"got {dispatch_key}"
            )
        key = dispatch_key or self.dispatch_key or None
        return _operator(self._name(op_name)).register_kernel(key, fn)

    def _register_fake(self, op_name, fn, _stacklevel=1, *, allow_override=False):
        return _operator(self._name(op_name)).register_fake(fn)

    def _destroy(self):
        """Do nothing: operators stay."""
