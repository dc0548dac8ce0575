"""Store programs and what belongs to them (modules, pickles, texts) in one file, a package: PyTorch's `torch.package`.

A package is a program. `PackageImporter` runs the code of the modules that it imports, and unpickles with whatever
those modules define, so a package from somebody who is not trusted must not be imported. Nothing else in Facula runs
code from a file, and `load` refuses packages. See docs/packages.md.
"""

from . import analyze as analyze
from .analyze.is_from_package import is_from_package
from .file_structure_representation import Directory
from .glob_group import GlobGroup
from .importer import Importer, ObjMismatchError, ObjNotFoundError, OrderedImporter, sys_importer
from .package_exporter import EmptyMatchError, PackageExporter, PackagingError
from .package_importer import PackageImporter

__all__ = [
    "Directory",
    "EmptyMatchError",
    "GlobGroup",
    "Importer",
    "ObjMismatchError",
    "ObjNotFoundError",
    "OrderedImporter",
    "PackageExporter",
    "PackageImporter",
    "PackagingError",
    "is_from_package",
    "sys_importer",
]
