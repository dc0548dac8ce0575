"""What all data pipes are: data sets with functions that were registered for their kind."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeVar

from facula.utils.data.dataset import Dataset, IterableDataset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_T_co = TypeVar("_T_co", covariant=True)

__all__ = ["DFIterDataPipe", "DataChunk", "IterDataPipe", "MapDataPipe"]


class _Pipe:
    """What both kinds have: functions by name, and text."""

    functions: dict[Any, Any]
    __iter__: Any

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        made = cls.__dict__.get("__iter__")
        if made is not None and issubclass(cls, IterDataPipe):
            cls.__iter__ = _only_the_last(made)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and name in type(self).functions:
            return functools.partial(type(self).functions[name], self)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @classmethod
    def register_function(cls, function_name: str, function: Callable[..., Any]) -> None:
        """Gives pipes of this kind a function, which is called with the pipe and what a call gives.

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
        """Gives pipes of this kind a function that makes another pipe of them; the decorator `functional_datapipe` calls it.

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
            raise RuntimeError(f"Unable to add DataPipe function name {function_name} as it is already taken")
        if enable_df_api_tracing:
            raise NotImplementedError("functional_datapipe: data frames are not traced, got enable_df_api_tracing=True")
        cls.functions[function_name] = cls_to_register

    def __str__(self) -> str:
        return type(self).__qualname__

    __repr__ = __str__

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *type(self).functions]


def _only_the_last(make):
    """Of several iterators of one pipe only the newest goes on; an `__iter__` that gives the pipe itself stays as it is."""

    @functools.wraps(make)
    def begin(self):
        self._valid_iterator_id = mine = self.__dict__.get("_valid_iterator_id", -1) + 1
        made = make(self)
        return made if made is self else _while_valid(self, made, mine)

    return begin


def _while_valid(pipe, made, mine):
    for item in made:
        if pipe._valid_iterator_id != mine:
            raise RuntimeError(
                "This iterator has been invalidated because another iterator has been created from the same IterDataPipe: "
                f"{pipe!r}. Use `.fork()` where several read one pipe."
            )
        yield item


class IterDataPipe(_Pipe, IterableDataset[_T_co]):
    """A stream of samples: a subclass defines `__iter__`. Only its newest iterator can be read.

    Pipes have the functions that `functional_datapipe` registered, such as map and batch, which make pipes of them.

    Errors: RuntimeError for an older iterator that is read.

    >>> list(torch.utils.data.datapipes.iter.IterableWrapper([1, 2, 3]).map(lambda x: x * 10))
    [10, 20, 30]
    """

    functions: dict[Any, Any] = {}

    def reset(self) -> None:
        """Called by pipes that begin again; a subclass may do something then. Here it does nothing.

        >>> torch.utils.data.datapipes.iter.IterableWrapper([1]).reset()
        """


class MapDataPipe(_Pipe, Dataset[_T_co]):
    """Samples by index: a subclass defines `__getitem__` and `__len__`.

    Pipes have the functions that `functional_datapipe` registered, such as map and batch, which make pipes of them.

    >>> pipe = torch.utils.data.datapipes.map.SequenceWrapper([1, 2, 3]).map(lambda x: x * 10)
    >>> len(pipe), pipe[2]
    (3, 30)
    """

    functions: dict[Any, Any] = {}


class DFIterDataPipe(IterDataPipe["Any"]):
    """A stream of data frames: a subclass defines `__iter__`. There are no functions for frames.

    >>> issubclass(torch.utils.data.DFIterDataPipe, torch.utils.data.IterDataPipe)
    True
    """


class DataChunk(list[Any]):
    """A batch of a stream: a list.

    Args:
        iterable: the samples.

    >>> chunk = torch.utils.data.DataChunk([1, 2])
    >>> chunk, chunk.as_str(), list(chunk.raw_iterator())
    ([1, 2], '[1, 2]', [1, 2])
    """

    def as_str(self, indent: str = "") -> str:
        """The text of the batch, behind the text `indent`."""
        return indent + "[" + ", ".join(map(str, self)) + "]"

    def raw_iterator(self) -> Iterator[Any]:
        """Its samples."""
        yield from self
