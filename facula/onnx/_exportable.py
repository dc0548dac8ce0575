"""Modules that know how they are exported."""

import abc

from facula import nn


class ExportableModule(nn.Module, abc.ABC):
    """A module that tells its example arguments, and the names and sizes in its file.

    Example:
        >>> import facula
        >>> class Twice(facula.onnx.ExportableModule):
        ...     def forward(self, x):
        ...         return x * 2
        ...     def example_arguments(self):
        ...         return (facula.ones(2, 3),), None
        ...     def dynamic_shapes(self):
        ...         return ({0: "batch"},)
        >>> Twice().to_onnx().input_names
        ['x']
    """

    @abc.abstractmethod
    def example_arguments(self):
        """Examples of the arguments of forward: a tuple of those by place, and a dict of those by name or None."""

    def input_names(self):
        """What inputs are called in the file; None: as in the program."""
        return None

    def output_names(self):
        """What outputs are called in the file; None: as in the program."""
        return None

    def dynamic_shapes(self):
        """Which sizes vary, as `onnx.export` takes it; None: no size."""
        return None

    def to_onnx(self, **options):
        """`onnx.export` of this module; options are its other arguments."""
        from ._export import export

        return export(self, **options)
