"""Files beside the modules of a package, for `importlib.resources`."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from facula.package.package_importer import PackageImporter


class PackageResources:
    """Reads the files in one folder of a package.

    Args:
        importer: the `PackageImporter`.
        name: the folder, named like a module.
    """

    def __init__(self, importer: PackageImporter, name: str) -> None:
        self._importer, self._name = importer, name

    def open_resource(self, resource: str) -> Any:
        """The file of this name, opened for reading bytes."""
        return io.BytesIO(self._importer.load_binary(self._name, resource))

    def resource_path(self, resource: Any) -> Any:
        """FileNotFoundError: what is in a package is no file of its own."""
        raise FileNotFoundError(f"resource_path: files of packages have no paths, got {resource!r}")

    def is_resource(self, name: str) -> bool:
        """Whether there is a file of this name."""
        return name in self._importer.names_in(self._name)

    def contents(self) -> Iterator[str]:
        """The names of the files and of the folders beside them, one after the other."""
        below = (folder.rpartition(".") for folder in self._importer._folders)
        yield from sorted({*self._importer.names_in(self._name), *(last for home, _, last in below if home == self._name)})
