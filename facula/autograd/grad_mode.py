"""Define context managers and decorators that switch the recording of ops."""

from __future__ import annotations

import functools
import inspect
import threading
import warnings
from typing import TYPE_CHECKING

from .. import _C

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from typing_extensions import Self


class _Switch:
    """Implement context managers that can also decorate functions and generators; it is the base of the modes."""

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.isgeneratorfunction(function):
            return self._generator(function)
        if inspect.isclass(function):
            warnings.warn(
                f"{type(self).__name__}: Decorating classes is deprecated, decorate their __init__ instead, got "
                f"{function.__name__}",
                FutureWarning,
                stacklevel=2,
            )

        @functools.wraps(function, updated=() if inspect.isclass(function) else ("__dict__",))
        def wrapped(*args, **kwargs):
            with self.clone():
                return function(*args, **kwargs)

        return wrapped

    def _generator(self, function):
        """Return the generator function whose code runs within the context each time it is resumed."""

        @functools.wraps(function)
        def generator(*args, **kwargs):
            inner = function(*args, **kwargs)
            try:
                with self.clone():
                    item = inner.send(None)
                # The context is entered for each piece of the generator: between pieces, the caller's own settings
                # hold.
                while True:
                    try:
                        value = yield item
                    except GeneratorExit:
                        with self.clone():
                            inner.close()
                        raise
                    except BaseException as error:
                        with self.clone():
                            item = inner.throw(error)
                    else:
                        with self.clone():
                            item = inner.send(value)
            except StopIteration as stop:
                return stop.value

        return generator

    def clone(self) -> Self:
        """Return another context manager of the same kind, for one that is used as a decorator.

        >>> with torch.no_grad(), torch.enable_grad().clone():
        ...     torch.is_grad_enabled()
        True
        """
        return type(self)()


class no_grad(_Switch):
    """Stop recording ops in a block or function, so that results do not require gradients: for evaluation and updates
    of parameters.

    The class takes no arguments as a context manager, and a function or generator as a decorator. It applies to this
    thread. Tensors that the program makes with requires_grad=True inside the block do require gradients.

    Args:
        function: what is decorated, where it is used without parentheses.

    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    def __new__(cls, function: Callable[..., Any] | None = None) -> no_grad:
        self = super().__new__(cls)
        return self if function is None else self(function)

    def __enter__(self) -> None:
        self.before: Any = _C._set_grad_enabled(False)

    def __exit__(self, *exception: object) -> None:
        _C._set_grad_enabled(self.before)


class enable_grad(_Switch):
    """Record ops again in a block or function, also within no_grad.

    It is a context manager, or a decorator of functions and generators, and applies to this thread.

    Args:
        function: what is decorated, where it is used without parentheses.

    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.no_grad(), torch.enable_grad():
    ...     y = x * 2
    >>> y.requires_grad
    True
    """

    def __new__(cls, function: Callable[..., Any] | None = None) -> enable_grad:
        self = super().__new__(cls)
        return self if function is None else self(function)

    def __enter__(self) -> None:
        self.before: Any = _C._set_grad_enabled(True)

    def __exit__(self, *exception: object) -> None:
        _C._set_grad_enabled(self.before)


class set_grad_enabled(_Switch):
    """Switch the recording of ops at once; used as a context manager or a decorator, it restores the setting at the
    end.

    Args:
        mode: whether ops are recorded on this thread.

    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.set_grad_enabled(False):
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    def __init__(self, mode: bool):
        self.mode: bool = bool(mode)
        self.before: Any = _C._set_grad_enabled(self.mode)

    def __call__(self, function: Callable[..., Any]) -> Any:
        _C._set_grad_enabled(self.before)
        return super().__call__(function)

    def __enter__(self) -> None:
        _C._set_grad_enabled(self.mode)

    def __exit__(self, *exception: object) -> None:
        _C._set_grad_enabled(self.before)

    def clone(self) -> Self:
        """Return another context manager of the same mode; making it switches recording, as making the first did.

        >>> switch = torch.set_grad_enabled(True)
        >>> with switch.clone():
        ...     torch.is_grad_enabled()
        True
        """
        return type(self)(self.mode)


class inference_mode(_Switch):
    """Stop recording in a block, and exclude the tensors made there from recording for good, which costs less than
    no_grad.

    A context manager, or a decorator of functions and generators. Holds for this thread.

    Args:
        mode: whether it is on; or the function that is decorated, where it is used without parentheses. False records again
            within a block of True, and within `no_grad`.

    Tensors made inside can be written and read outside, but using them where a graph would save them raises RuntimeError there;
    clone them first.

    >>> with torch.inference_mode():
    ...     y = torch.ones(2) * 2
    >>> y.is_inference(), y.requires_grad
    (True, False)
    """

    def __new__(cls, mode: bool = True) -> inference_mode:
        self = super().__new__(cls)
        if callable(mode):
            self.mode = True
            return self(mode)
        self.mode = mode
        return self

    def __init__(self, mode: bool = True):
        if not callable(mode):
            self.mode: bool = bool(mode)

    def __enter__(self) -> None:
        self.before: Any = (_C._set_grad_enabled(not self.mode), _C._set_inference_mode(self.mode))

    def __exit__(self, *exception: object) -> None:
        _C._set_grad_enabled(self.before[0])
        _C._set_inference_mode(self.before[1])

    def clone(self) -> Self:
        """Return another context manager of the same mode, for one that is used as a decorator.

        >>> with torch.inference_mode(False).clone():
        ...     torch.is_inference_mode_enabled()
        False
        """
        return type(self)(self.mode)


class _Choices(threading.local):
    """Hold the settings of one thread."""

    multithreading = True
    view_replay = False


_choices = _Choices()


class _Choice(_Switch):
    """Change a setting when the object is made, and restore it at the end of its block."""

    _name = ""

    def __init__(self, mode: bool):
        self.mode = bool(mode)
        self.before = getattr(_choices, self._name)
        setattr(_choices, self._name, self.mode)

    def __call__(self, function: Callable[..., Any]) -> Any:
        setattr(_choices, self._name, self.before)
        return super().__call__(function)

    def __enter__(self) -> None:
        setattr(_choices, self._name, self.mode)

    def __exit__(self, *exception: object) -> None:
        setattr(_choices, self._name, self.before)

    def clone(self) -> Self:
        """Return another context manager of the same kind and mode; making it switches, as making the first did.

        >>> torch.autograd.set_multithreading_enabled(True).clone().mode
        True
        """
        return type(self)(self.mode)


class set_multithreading_enabled(_Choice):
    """Set whether backward may use several threads. This has no effect on the CPU, where nodes run on the calling
    thread.

    Args:
        mode: the switch.

    >>> with torch.autograd.set_multithreading_enabled(False):
    ...     torch.ones(1, requires_grad=True).sum().backward()
    """

    _name = "multithreading"


def is_multithreading_enabled() -> bool:
    """Return what `set_multithreading_enabled` chose for this thread.

    >>> torch.autograd.is_multithreading_enabled()
    True
    """
    return _choices.multithreading


class _force_original_view_tracking(_Choice):
    """Accept the switch for compatibility. It has no effect, because views are always tracked through their base."""

    _name = "view_replay"


def is_view_replay_enabled() -> bool:
    """Return what `torch.autograd.grad_mode._force_original_view_tracking` chose for this thread.

    >>> torch.autograd.is_view_replay_enabled()
    False
    """
    return _choices.view_replay
