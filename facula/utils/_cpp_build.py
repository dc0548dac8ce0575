"""Compile C++ sources: only what has changed, several files at a time, and in one process at a time per folder.

An object is compiled again when its command has changed, or when a file that it depends on is newer; the compiler
writes a list of those files. Nothing but the compiler is therefore needed, and ninja is not used even where it is
installed.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import shlex
import subprocess
import sys

try:
    import fcntl
except ImportError:  # no locks between processes there
    fcntl = None


def workers():
    """Return how many sources are compiled at a time: MAX_JOBS, or as many as there are processors."""
    text = os.environ.get("MAX_JOBS", "")
    if not text:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"cpp_extension: MAX_JOBS is a positive number, got {text!r}")
    return int(text)


@contextlib.contextmanager
def locked(folder):
    """Hold the folder for this process; who ends lets it go, however it ends."""
    with open(os.path.join(folder, "lock"), "w") as lock:
        if fcntl is not None:
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run(command, verbose=False):
    """Run a command; a RuntimeError with all that it printed where it fails."""
    if verbose:
        print(shlex.join(command), flush=True)
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace", text=True)
    except OSError as error:
        raise RuntimeError(f"cpp_extension: {command[0]!r} cannot be run: {error}") from error
    if done.returncode:
        text = f"cpp_extension: the command failed with status {done.returncode}: {shlex.join(command)}\n{done.stdout}"
        raise RuntimeError(text)
    if done.stdout and (verbose or "warning:" in done.stdout):
        print(done.stdout, file=sys.stderr, flush=True)


def _made_of(path):
    """Return the files that a dependency file of the compiler names after the object."""
    with open(path, errors="surrogateescape") as file:
        # The compiler writes a rule of make, whose lines continue after a backslash and whose spaces in names are
        # escaped.
        text = file.read().replace("\\\n", " ")
    _, _, names = text.partition(": ")
    return [name.replace("\0", " ") for name in names.replace("\\ ", "\0").split()]


def _read(path):
    with contextlib.suppress(OSError), open(path) as file:
        return file.read()
    return None


def is_current(target, command, files=None):
    """Return whether `target` was made by `command` after its files were last written; without `files`, those the compiler
    named."""
    try:
        made = os.stat(target).st_mtime_ns
        if _read(f"{target}.command") != shlex.join(command):
            return False
        files = _made_of(f"{target}.d") if files is None else files
        return all(os.stat(file).st_mtime_ns <= made for file in files)
    except OSError:
        return False


def _note(target, command):
    with open(f"{target}.command", "w") as file:
        file.write(shlex.join(command))


def compile_objects(jobs, verbose=False):
    """Compile where needed.

    Args:
        jobs: pairs of an object and its command, which has the object behind `-o`.

    Raises RuntimeError with the compiler's output; what else was being compiled then is finished first.
    """
    waiting = []
    for target, command in jobs:
        command = [*command, "-MD", "-MF", f"{target}.d"]
        if not is_current(target, command):
            waiting.append((target, command))

    def work(job):
        target, command = job
        os.makedirs(os.path.dirname(target) or ".", exist_ok=True)
        with contextlib.suppress(OSError):
            # Removed first: an object that is interrupted halfway must not count as current.
            os.unlink(f"{target}.command")
        run(command, verbose)
        _note(target, command)

    with concurrent.futures.ThreadPoolExecutor(workers()) as pool:
        done = [pool.submit(work, job) for job in waiting]
        concurrent.futures.wait(done, return_when=concurrent.futures.FIRST_EXCEPTION)
        for each in done:
            each.cancel()
    for each in done:
        if not each.cancelled():
            each.result()


def link(target, command, objects, verbose=False):
    """Link where an object or the command changed. The file is exchanged in one step: who uses the old one keeps it."""
    written = f"{target}.new"
    command = [*command, "-o", written]
    if is_current(target, command, objects):
        return
    run(command, verbose)
    # A process that has loaded the old library keeps its file; writing into it would change running code.
    os.replace(written, target)
    _note(target, command)
