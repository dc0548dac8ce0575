"""Remove shared memory that killed processes have left behind."""

from __future__ import annotations

import glob
import os

#: Names that MPI libraries give theirs.
_PATTERNS = ("/dev/shm/mpich_shm_*", "/dev/shm/mpich_shar_tmp*", "/dev/shm/Intel_MPI_*")


def remove_unmapped_segments() -> list[str]:
    """Remove segments of shared memory of this user that MPI libraries of killed processes have left and no process maps;
    return their names.

    >>> from torch.distributed.elastic.multiprocessing.segments import remove_unmapped_segments
    >>> isinstance(remove_unmapped_segments(), list)
    True
    """
    mine = [path for pattern in _PATTERNS for path in glob.glob(pattern) if _is_mine(path)]
    if not mine:
        return []
    mapped = _mapped()
    removed = []
    for path in mine:
        if path not in mapped:
            try:
                os.unlink(path)
                removed.append(path)
            except FileNotFoundError:
                pass  # another launcher was faster
    return removed


def _is_mine(path: str) -> bool:
    try:
        return os.stat(path).st_uid == os.getuid()
    except FileNotFoundError:
        return False


def _mapped() -> set[str]:
    """Return the files of /dev/shm that processes map."""
    found = set()
    for path in glob.glob("/proc/[0-9]*/maps"):
        try:
            with open(path) as file:
                found.update(line.split(maxsplit=5)[5].strip() for line in file if "/dev/shm/" in line)
        except (OSError, IndexError):
            continue  # it ended, or is another user's
    return found
