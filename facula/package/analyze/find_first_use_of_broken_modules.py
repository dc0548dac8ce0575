"""Find out why modules that cannot be packed are needed."""

from __future__ import annotations

from ..package_exporter import PackagingError

__all__ = ["find_first_use_of_broken_modules"]


def find_first_use_of_broken_modules(exc: PackagingError) -> dict[str, list[str]]:
    """Return for each module that a `PackagingError` complains of, a list that ends with it: each module needs the next.

    Args:
        exc: the error. TypeError for another exception.

    >>> import io
    >>> exporter = torch.package.PackageExporter(io.BytesIO())
    >>> exporter.save_source_string("program", "import numpy")
    >>> try:
    ...     exporter.close()
    ... except torch.package.PackagingError as error:
    ...     torch.package.analyze.find_first_use_of_broken_modules(error)
    {'numpy': ['program', 'numpy']}
    """
    if not isinstance(exc, PackagingError):
        raise TypeError(f"find_first_use_of_broken_modules: a PackagingError is needed, got {type(exc).__name__}")
    graph = exc.dependency_graph
    return {name: graph.first_path(name) for name, attributes in graph.nodes.items() if attributes.get("error")}
