"""Operators that programs define. They are Python functions, reached as `torch.ops.<namespace>.<name>`.

A kernel may be registered before, after or without its schema; the CPU (or device-independent) kernel is what
runs. Gradients registered with `register_autograd` are used through autograd.Function.
"""

import functools
import inspect

import facula

__all__ = [
    "Library",
    "custom_op",
    "triton_op",
    "wrap_triton",
    "define",
    "impl",
    "impl_abstract",
    "fallthrough_kernel",
    "get_ctx",
    "register_fake",
    "register_kernel",
    "register_autocast",
    "register_autograd",
    "register_torch_dispatch",
    "register_vmap",
    "opcheck",
    "infer_schema",
]

_CPU_KEYS = ("CPU", "cpu", "CompositeImplicitAutograd", "CompositeExplicitAutograd", "default", None)


class CustomOpDef:
    """An operator made by `custom_op`; calling it runs its kernel.

    Args:
        name: "namespace::name".
        fn: the kernel.
    """

    def __init__(self, name, fn=None, schema=None):
        self._qualname, self._schema = name, schema
        self._namespace, _, self._name = name.partition("::")
        self._kernels = {}
        self._fake = None
        self._function = None
        if fn is not None:
            self._kernels[None] = fn
            functools.update_wrapper(self, fn)

    def _kernel(self):
        for key in _CPU_KEYS:
            if key in self._kernels:
                return self._kernels[key]
        raise NotImplementedError(f"{self._qualname}: no kernel for the CPU is registered")

    def __call__(self, *args, **kwargs):
        kernel = self._kernel()
        if self._function is None or not facula.is_grad_enabled():
            return kernel(*args, **kwargs)
        # the derivative sees every argument, given or not, by position
        bound = inspect.signature(kernel).bind(*args, **kwargs)
        bound.apply_defaults()
        return self._function.apply(bound.kwargs, *bound.args)

    def register_kernel(self, device_types, func=None, /):
        """Registers (or as a decorator) the kernel for these device types."""
        kinds = (
            (device_types,) if device_types is None or isinstance(device_types, str) else tuple(device_types)
        )

        def register(kernel):
            self._kernels.update(dict.fromkeys(kinds, kernel))
            return kernel

        return register if func is None else register(func)

    def register_fake(self, fn, /):
        """Keeps the shape function; Facula runs operators eagerly and does not need it."""
        self._fake = fn
        return fn

    def register_autograd(self, backward, /, *, setup_context=None):
        """Registers the backward: (ctx, *gradients) -> gradients of the inputs that can be given by position.

        `setup_context(ctx, inputs, output)` also gets `keyword_only_inputs` where the kernel has such parameters.
        """
        op = self

        def forward(ctx, keyword_only, *args):
            output = op._kernel()(*args, **keyword_only)
            if setup_context is not None:
                named = {"inputs": args, "output": output}
                if keyword_only:
                    named["keyword_only_inputs"] = keyword_only
                setup_context(ctx, **named)
            return output

        def backward_of_all(ctx, *gradients):
            results = backward(ctx, *gradients)
            return (None, *(results if isinstance(results, (list, tuple)) else (results,)))

        body = {"forward": staticmethod(forward), "backward": staticmethod(backward_of_all)}
        self._function = type(self._name, (facula.autograd.Function,), body)

    def register_vmap(self, func=None, /):
        """Keeps nothing: batching a custom operator is not supported. Hands `func` back."""
        return func if func is not None else lambda func: func

    def register_torch_dispatch(self, torch_dispatch_class, fn=None, /):
        """Keeps nothing; hands `fn` back."""
        return fn if fn is not None else lambda fn: fn

    def register_autocast(self, device_type, cast_inputs):
        """Not supported."""
        raise NotImplementedError("library.register_autocast is not supported by Facula")

    def __repr__(self):
        return f"<CustomOpDef({self._qualname})>"


_operators = {}


def find(namespace, name):
    """The operator registered as namespace::name, or None: what `torch.ops` asks."""
    return _operators.get(f"{namespace}::{name.partition('.')[0]}")


def _operator(name):
    """The operator `name`, made when it does not exist yet."""
    name = name._qualname if isinstance(name, CustomOpDef) else str(name)
    name = name.partition("(")[0].partition(".")[0].strip()
    if "::" not in name:
        raise ValueError(f"library: an operator's name is namespace::name, got {name!r}")
    return _operators.setdefault(name, CustomOpDef(name))


def custom_op(name, fn=None, /, *, mutates_args=(), device_types=None, schema=None, tags=None):
    """Makes `fn` (or the decorated function) the operator `name`."""

    def define_op(function):
        op = _operators[name] = CustomOpDef(name, function, schema)
        return op

    return define_op if fn is None else define_op(fn)


def triton_op(name, fn=None, /, *, mutates_args, schema=None):
    """As custom_op."""
    return custom_op(name, fn, mutates_args=mutates_args, schema=schema)


def wrap_triton(triton_kernel, /):
    """`triton_kernel` itself."""
    return triton_kernel


def define(qualname, schema=None, *, lib=None, tags=()):
    """Declares an operator; as a decorator too."""
    _operator(qualname)._schema = schema
    return lambda fn: (_operator(qualname).register_kernel(None, fn), fn)[1]


def impl(qualname, types, func=None, *, lib=None):
    """Registers (or decorates) a kernel for device types."""
    return _operator(qualname).register_kernel(types, func)


def register_kernel(op, device_types, func=None, /, *, lib=None):
    """Registers (or decorates) a kernel for device types."""
    return _operator(op).register_kernel(device_types, func)


def register_fake(op, func=None, /, *, lib=None, _stacklevel=1, allow_override=False):
    """Keeps (or decorates) a shape function."""
    return _operator(op).register_fake if func is None else _operator(op).register_fake(func)


impl_abstract = register_fake


def register_autograd(op, backward, /, *, setup_context=None, lib=None):
    """Registers a backward."""
    _operator(op).register_autograd(backward, setup_context=setup_context)


def register_vmap(op, func=None, /, *, lib=None):
    """Hands `func` back; see CustomOpDef.register_vmap."""
    return _operator(op).register_vmap(func)


def register_torch_dispatch(op, torch_dispatch_class, func=None, /, *, lib=None, allow_override=False):
    """Hands `func` back."""
    return _operator(op).register_torch_dispatch(torch_dispatch_class, func)


def register_autocast(op, device_type, cast_inputs, /, *, lib=None):
    """Not supported."""
    _operator(op).register_autocast(device_type, cast_inputs)


def fallthrough_kernel():
    """Stands for "no kernel of its own"; never called."""
    raise NotImplementedError("library.fallthrough_kernel is a mark, not a function to call")


def get_ctx():
    """Not supported: there is no symbolic tracing."""
    raise NotImplementedError("library.get_ctx is not supported by Facula")


def opcheck(op, args, kwargs=None, **options):
    """Not supported."""
    raise NotImplementedError("library.opcheck is not supported by Facula")


def infer_schema(prototype_function, /, *, mutates_args=(), op_name=None):
    """Not supported."""
    raise NotImplementedError("library.infer_schema is not supported by Facula")


class Library:
    """A namespace of operators.

    Args:
        ns: its name.
        kind: "DEF", "IMPL" or "FRAGMENT"; all are alike here.
    """

    def __init__(self, ns, kind, dispatch_key=""):
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def _name(self, op):
        op = getattr(op, "_qualname", op)
        return op if "::" in op else f"{self.ns}::{op}"

    def define(self, schema, alias_analysis="", *, tags=()):
        """Declares the operator of a schema such as "add(Tensor a, Tensor b) -> Tensor"."""
        op = _operator(self._name(schema.partition("(")[0]))
        op._schema = schema
        return op._name

    def impl(self, op_name, fn, dispatch_key="", *, with_keyset=False, allow_override=False):
        """Registers a kernel."""
        key = dispatch_key or self.dispatch_key or None
        return _operator(self._name(op_name)).register_kernel(key, fn)

    def _register_fake(self, op_name, fn, _stacklevel=1, *, allow_override=False):
        return _operator(self._name(op_name)).register_fake(fn)

    def _destroy(self):
        """Operators stay."""
