"""Define the base classes of data pipes, data sets with methods that were registered for their kind."""

from __future__ import annotations

import enum
import functools
import inspect
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from facula._C import _watching
from facula.autograd.profiler import record_function
from facula.utils.data.dataset import Dataset, IterableDataset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import Self


# ---- What pipes that shuffle are told


class _Shuffling:
    """Change the order with every iterator, unless a caller switches this off."""

    _enabled = True
    _seed = None

    def set_shuffle(self, shuffle: bool = True) -> Self:
        """Turn shuffling on or off by `shuffle`; give the pipe."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int) -> Self:
        """Set the seed of the next iterator; give the pipe."""
        self._seed = seed
        return self


_T_co = TypeVar("_T_co", covariant=True)

__all__ = ["DFIterDataPipe", "DataChunk", "IterDataPipe", "MapDataPipe"]


class _Pipe:
    """Find registered methods by name, and pickle and print a pipe; the base class of both kinds."""

    functions: dict[Any, Any]
    __iter__: Any
    _is_stream = False

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        own = vars(cls)
        if "__iter__" in own and cls._is_stream:
            cls.__iter__ = _hooked_iter(own["__iter__"])
        if "__next__" in own and cls._is_stream:
            cls.__next__ = _hooked_next(own["__next__"])

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and name in type(self).functions:
            function = type(self).functions[name]
            bound = functools.partial(function, self)
            bound.__doc__ = f"(functional name: ``{name}``)\n\n{inspect.getdoc(function) or ''}"
            return bound
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    @classmethod
    def register_function(cls, function_name: str, function: Callable[..., Any]) -> None:
        """Give pipes of this kind a function, which is called with the pipe and what a call gives.

        Args:
            function_name: the name.
            function: what it does.

        >>> pipes = torch.utils.data.datapipes.iter
        >>> torch.utils.data.IterDataPipe.register_function("total", sum)
        >>> pipes.IterableWrapper([1, 2]).total()
        3
        """
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(cls, function_name: str, cls_to_register: type,
                                      enable_df_api_tracing: bool = False) -> None:  # fmt: skip
        """Give pipes of this kind a function that makes another pipe of them; the decorator `functional_datapipe` calls it.

        Args:
            function_name: the name of the function.
            cls_to_register: the class of the other pipe, which is made of the pipe and what a call gives.
            enable_df_api_tracing: must be False.

        Errors: RuntimeError for a name that is taken; NotImplementedError for tracing of data frames.

        >>> class Doubled(torch.utils.data.IterDataPipe):
        ...     def __init__(self, datapipe):
        ...         self.datapipe = datapipe
        ...     def __iter__(self):
        ...         return (2 * x for x in self.datapipe)
        >>> torch.utils.data.IterDataPipe.register_datapipe_as_function("doubled_for_example", Doubled)
        >>> list(torch.utils.data.datapipes.iter.IterableWrapper([1, 2]).doubled_for_example())
        [2, 4]
        """
        if function_name in cls.functions:
            raise RuntimeError(f"register_function: a new name is expected, got {function_name}, which there is")
        if enable_df_api_tracing:
            raise NotImplementedError("functional_datapipe: data frames are not traced, got enable_df_api_tracing=True")
        cls.functions[function_name] = cls_to_register

    def __str__(self) -> str:
        return type(self).__qualname__

    __repr__ = __str__

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *type(self).functions]


def _hooked_iter(make):
    """Return an `__iter__` that ends older iterators of the pipe, and begins anew unless the pipe was restored."""

    @functools.wraps(make)
    def begin(self):
        if self._restored is not None:  # `restore` has read ahead: the next iterator goes on from there
            restored, self._restored = self._restored, None
            self._state = PipeState.ITERATING
            return restored
        mine = self._begin_epoch()
        return _Samples(self, make(self), mine)

    return begin


def _hooked_next(following):
    """Return a `__next__` that counts what it gives."""

    @functools.wraps(following)
    def counted(self):
        value = following(self)
        self._number_of_samples_yielded += 1
        return value

    return counted


class _Samples:
    """Iterate over a pipe as long as no newer iterator exists; other attributes are those of the iterator that the pipe
    made.
    """

    def __init__(self, pipe, made, number):
        self._pipe, self._number = pipe, number
        self._source = made if made is pipe else iter(made)
        self._counts = made is not pipe or not hasattr(type(pipe), "__next__")  # otherwise its __next__ does

    def __iter__(self):
        return self

    def __next__(self):
        pipe = self._pipe
        if not pipe._is_current(self._number):
            raise RuntimeError(
                f"IterDataPipe: a newer iterator of {pipe!r} has ended this one; "
                "use `.fork()` where several read one pipe"
            )
        if _watching():
            with record_function(f"enumerate(DataPipe)#{type(pipe).__name__}"):
                value = next(self._source)
        else:
            value = next(self._source)
        pipe._state = PipeState.ITERATING
        if self._counts:
            pipe._number_of_samples_yielded += 1
        return value

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._source, name)


class PipeState(enum.Enum):
    """Name the state of a stream. A restored stream has read ahead and continues from there once."""

    NOT_STARTED = 0
    RESTORED = 1
    ITERATING = 2


class IterDataPipe(_Pipe, IterableDataset[_T_co]):
    """Provide samples as a stream: a subclass defines `__iter__`. Only the newest iterator can be read.

    Pipes have the functions that `functional_datapipe` registered, such as map and batch, which make pipes of them.

    Errors: RuntimeError for an older iterator that is read.

    >>> list(torch.utils.data.datapipes.iter.IterableWrapper([1, 2, 3]).map((10).__mul__))
    [10, 20, 30]
    """

    functions: dict[Any, Any] = {}
    _is_stream = True
    _valid_iterator_id: int | None = None
    _number_of_samples_yielded: int = 0
    _state: PipeState = PipeState.NOT_STARTED
    _restored: Any = None

    def reset(self) -> None:
        """Begin again: every new iterator calls this first. A subclass may do something then; here it does nothing.

        >>> torch.utils.data.datapipes.iter.IterableWrapper([1]).reset()
        """

    def __iter__(self) -> Any:
        return self

    def _begin_epoch(self) -> int:
        """Make older iterators invalid and reset the pipe. Returns the number of the new iterator."""
        self._valid_iterator_id = 0 if self._valid_iterator_id is None else self._valid_iterator_id + 1
        self._start_over()
        return self._valid_iterator_id

    def _start_over(self) -> None:
        self._number_of_samples_yielded, self._restored, self._state = 0, None, PipeState.NOT_STARTED
        self.reset()

    def _is_current(self, number: int) -> bool:
        return self._valid_iterator_id == number

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        state.pop("_restored", None)  # an iterator, which stays here
        return state


class MapDataPipe(_Pipe, Dataset[_T_co]):
    """Provide samples by index: a subclass defines `__getitem__` and `__len__`.

    Pipes have the functions that `functional_datapipe` registered, such as map and batch, which make pipes of them.

    >>> pipe = torch.utils.data.datapipes.map.SequenceWrapper([1, 2, 3]).map((10).__mul__)
    >>> len(pipe), pipe[2]
    (3, 30)
    """

    functions: dict[Any, Any] = {}


class DFIterDataPipe(IterDataPipe["Any"]):
    """Provide data frames as a stream: a subclass defines `__iter__`. There are no methods for frames.

    >>> issubclass(torch.utils.data.DFIterDataPipe, torch.utils.data.IterDataPipe)
    True
    """


_T = TypeVar("_T")


class DataChunk(list[_T], Generic[_T]):
    """Hold a batch of a stream; it is a list.

    Args:
        iterable: the samples.

    >>> chunk = torch.utils.data.DataChunk([1, 2])
    >>> chunk, chunk.as_str(), list(chunk.raw_iterator())
    ([1, 2], '[1, 2]', [1, 2])
    """

    def as_str(self, indent: str = "") -> str:
        """Return the text of the batch, behind the text `indent`.

        Args:
            indent: what stands in front.
        """
        return indent + "[" + ", ".join(map(str, self)) + "]"

    def raw_iterator(self) -> Iterator[Any]:
        """Yield its samples."""
        yield from self
