"""Describe a file that is not a checkpoint, such as a web page or a Git LFS pointer that was saved in its place."""

from .errors import UnpicklingError
from .texts import shown

_KINDS = {
    b"version https://git-lfs.github.com/spec/": "a Git LFS pointer in the place of the file (run `git lfs pull`)",
    b"\x89HDF\r\n\x1a\n": "an HDF5 file (h5py reads it)",
    b"\x93NUMPY": "a NumPy array (numpy.load reads it)",
    b"GGUF": "a GGUF file",
    b"\x1f\x8b": "a gzip archive (unpack it first)",
    b"\xfd7zXZ\x00": "an xz archive (unpack it first)",
    b"BZh": "a bzip2 archive (unpack it first)",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive (unpack it first)",
    b"Rar!\x1a\x07": "a RAR archive (unpack it first)",
    b"\x89PNG\r\n\x1a\n": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"\x7fELF": "a compiled program or library",
    b"%PDF": "a PDF document",
}
_PAGES = (b"<!doctype html", b"<html", b"<head", b"<?xml", b"<body")
_LEGACY_AS_TEXT = b"L119547037146038801333356"  # the magic number of the legacy format, where protocol 0 wrote it


def refuse(head):
    """Raise UnpicklingError that says what the file is, if its first bytes tell."""
    kind = kind_of(head)
    if kind is not None:
        raise UnpicklingError(f"load: expected a checkpoint, got {kind}")


def kind_of(head):
    """Return a description of the file that begins with `head`, or None where that may be a checkpoint.

    >>> kind_of(b"<!DOCTYPE html><html>")
    'an HTML or XML page (did the download need a login, or was the address wrong?)'
    """
    for magic, kind in _KINDS.items():
        if head.startswith(magic):
            return kind
    if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:14].lower().startswith(_PAGES):
        return "an HTML or XML page (did the download need a login, or was the address wrong?)"
    if head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 1 << 40 and head[:1] != b"\x80":
        return "a safetensors file (the package safetensors reads it)"
    if _is_text(head) and not head.startswith(_LEGACY_AS_TEXT):
        return f"text that begins with {shown(head[:40].decode('utf-8', 'replace'))}"
    return None


def _is_text(head):
    """Return True if the bytes are at least four printable characters in UTF-8 (a last one may be cut off)."""
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 3:
            return False
        text = head[: error.start].decode("utf-8")
    return len(text) >= 4 and all(c.isprintable() or c in "\t\r\n\f" for c in text)
