"""Write a new file beside an old one and let it replace the old one only when it is complete."""

import contextlib
import os
import secrets
import stat


@contextlib.contextmanager
def replacing(target):
    """Return a binary file beside `target`: renamed to it when the block ends well, removed otherwise.

    Its mode is the old file's, for a new one what the process's umask leaves of 0666.
    """
    folder, name = os.path.split(os.path.abspath(target))
    # In the same folder, because a rename is atomic only within a file system. The name is cut so that the whole stays
    # below the usual limit of 255 bytes.
    path = os.path.join(folder, f".{name[:100]}-{secrets.token_hex(8)}")
    # the system applies the umask here; reading it would mean to set it, for other threads too
    number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)
    try:
        with os.fdopen(number, "wb") as file:
            yield file
        if os.path.exists(target):
            # Before the rename, so that the file never has a wider mode than the old one.
            os.chmod(path, stat.S_IMODE(os.stat(target).st_mode))
        os.replace(path, target)
    except BaseException:
        os.unlink(path)
        raise
