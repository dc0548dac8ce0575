"""Start a PyTorch program with Facula in the place of torch, in this process and in the Python processes that it starts."""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys
import types
from typing import TYPE_CHECKING

import facula
from facula import compat
from facula.compat import placeholders
from facula.compat.aliases import facula_name

if TYPE_CHECKING:
    from typing import Any

#: Set for child processes, whose sitecustomize (see site/) then installs the aliases.
ENVIRONMENT_NAME = "FACULA_AS_TORCH"
_USAGE = "usage: python -m facula [-m module | -c code | file | -] [arguments]"


def prepare_children() -> None:
    """Let every Python started from here find Facula as torch, through the environment alone."""
    os.environ[ENVIRONMENT_NAME] = "1"
    site = os.path.join(os.path.dirname(os.path.abspath(__file__)), "site")
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if site not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([site, *(path for path in paths if path)])


def main(arguments: Any) -> int | None:
    """Run what `arguments` name, as `python` itself would."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_USAGE)
        return 0 if arguments else 2
    first = arguments[0]
    if first in ("-V", "--version"):
        print(f"Facula {facula.__version__}, Python {sys.version.split()[0]}")
        return 0
    if first in ("-m", "-c") and len(arguments) < 2:
        return _refuse(f"option {first} needs an argument\n{_USAGE}")
    if first.startswith("-") and first not in ("-m", "-c", "-"):
        return _refuse(f"unknown option {first}; Python's own options come before -m facula\n{_USAGE}")
    compat.install()
    prepare_children()
    sys.excepthook = _report
    if first == "-m":
        sys.argv = arguments[1:]
        return _run_module(arguments[1])
    if first in ("-c", "-"):
        sys.argv = [first, *arguments[2 if first == "-c" else 1 :]]
        sys.path[0] = ""
        text, name = (arguments[1], "<string>") if first == "-c" else (sys.stdin.read(), "<stdin>")
        return _execute(compile(text, name, "exec", dont_inherit=True), None)
    sys.argv = arguments
    return _run_file(first)


def _refuse(message):
    print(f"python -m facula: {message}", file=sys.stderr)
    return 2


def _report(kind, error, traceback):
    """Show an error of the program as if `python` had run it: without the frames that led there."""
    while traceback is not None and _is_launcher(traceback.tb_frame.f_code.co_filename):
        traceback = traceback.tb_next
    error = error.with_traceback(traceback)
    if "TORCHELASTIC_ERROR_FILE" in os.environ:  # a launcher of several processes wants to show what ended this one
        from facula.distributed.elastic.multiprocessing.errors import write_exception

        write_exception(error)
    sys.__excepthook__(kind, error, traceback)


def _is_launcher(filename):
    home = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return filename in (__file__, runpy.run_module.__code__.co_filename, os.path.join(home, "__main__.py"))


def _run_module(name):
    if name == "torch" or name.startswith("torch."):
        own = facula_name(name)
        if _exists(own):
            name = own  # such as torch.distributed.run
        elif placeholders.is_known_module(name):
            return _refuse(f"{name} is not supported by Facula")
    # `python -m` puts the current directory first, which is also where `python -m facula` has put it
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _exists(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # what it is in does not exist
        return False


def _run_file(path):
    if os.path.isdir(path) or path.endswith((".zip", ".pyz")):
        runpy.run_path(path, run_name="__main__")
        return None
    try:
        with open(path, "rb") as file:
            text = file.read()
    except OSError as error:
        return _refuse(f"cannot open file {path!r}: [Errno {error.errno}] {error.strerror}")
    sys.path[0] = os.path.dirname(os.path.realpath(path))
    path = os.path.abspath(path)
    return _execute(compile(text, path, "exec", dont_inherit=True), path)


def _execute(code, path):
    """Run `code` as the module __main__, which stays in place for pickles and spawned processes to find."""
    main_module = types.ModuleType("__main__")
    main_module.__dict__.update(__builtins__=__builtins__, __spec__=None)
    if path is not None:
        main_module.__dict__.update(__file__=path, __cached__=None)
    sys.modules["__main__"] = main_module
    exec(code, main_module.__dict__)
