"""Represent the contents of a package as a tree of folders and files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .glob_group import GlobGroup

if TYPE_CHECKING:
    from typing import Any

__all__ = ["Directory"]


class Directory:
    """Represent a folder or a file of a package; `PackageImporter.file_structure` makes it, and `print` draws it.

    Args:
        name: the last part of the path.
        is_dir: whether it is a folder.

    >>> import io
    >>> file = io.BytesIO()
    >>> with torch.package.PackageExporter(file) as exporter:
    ...     exporter.save_text("notes", "read.txt", "text")
    >>> tree = torch.package.PackageImporter(io.BytesIO(file.getvalue())).file_structure(include="notes/**")
    >>> tree.has_file("notes/read.txt")
    True
    """

    def __init__(self, name: str, is_dir: bool) -> None:
        self.name = name
        self.is_dir = is_dir
        self.children: dict[Any, Any] = {}

    def has_file(self, filename: str) -> bool:
        """Return whether there is a file (or a folder) at the path `filename`, parts between slashes."""
        here = self
        for part in filename.split("/"):
            if part not in here.children:
                return False
            here = here.children[part]
        return True

    def _add_file(self, path):
        *folders, last = path.split("/")
        here = self
        for folder in folders:
            here = here.children.setdefault(folder, Directory(folder, True))
            if not here.is_dir:
                raise RuntimeError(f"Directory: {folder!r} of {path!r} is a file as well as a folder")
        here.children.setdefault(last, Directory(last, False))

    def __str__(self) -> str:
        lines, pending = [], [(self, "─── ", "    ")]  # what is left to draw: (entry, before it, before its children)
        while pending:
            entry, front, below = pending.pop()
            lines.append(f"{front}{entry.name}\n")
            children = sorted(entry.children.values(), key=lambda child: (not child.is_dir, child.name))
            drawn = [(child, f"{below}├── ", f"{below}│   ") for child in children[:-1]]
            drawn += [(child, f"{below}└── ", f"{below}    ") for child in children[-1:]]
            pending.extend(reversed(drawn))
        return "".join(lines)


def _create_directory_from_file_list(filename, paths, include="**", exclude=()):
    """Return the tree of those `paths` that the patterns name, below a folder called `filename`."""
    wanted = GlobGroup(include, exclude=exclude, separator="/")
    top = Directory(filename, True)
    for path in paths:
        if wanted.matches(path):
            top._add_file(path)
    return top
