"""Starting a PyTorch program with Facula in torch's place, here and in the Python processes it starts."""

import os
import runpy
import sys
import types

import facula
from facula import compat

#: Set for child processes, whose sitecustomize (see site/) then installs the aliases.
ENVIRONMENT_NAME = "FACULA_AS_TORCH"
_USAGE = "usage: python -m facula [-m module | -c code | file] [arguments]"


def prepare_children():
    """Lets every Python started from here find Facula as torch, through the environment alone."""
    os.environ[ENVIRONMENT_NAME] = "1"
    site = os.path.join(os.path.dirname(os.path.abspath(__file__)), "site")
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if site not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([site, *(path for path in paths if path)])


def main(arguments):
    """Runs what `arguments` name, as `python` itself would."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_USAGE)
        return 0 if arguments else 2
    if arguments[0] in ("-V", "--version"):
        print(f"Facula {facula.__version__}, Python {sys.version.split()[0]}")
        return 0
    compat.install()
    prepare_children()
    if arguments[0] in ("-m", "-c") and len(arguments) < 2:
        print(f"python -m facula: option {arguments[0]} needs an argument\n{_USAGE}", file=sys.stderr)
        return 2
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        _run_module(arguments[1])
    elif arguments[0] == "-c":
        sys.argv = ["-c", *arguments[2:]]
        sys.path[0] = ""
        _execute(compile(arguments[1], "<string>", "exec"), None)
    else:
        sys.argv = arguments
        _run_file(arguments[0])
    return 0


def _run_module(name):
    # `python -m` puts the current directory first, which is also where `python -m facula` has put it
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _run_file(path):
    if os.path.isdir(path) or path.endswith((".zip", ".pyz")):
        runpy.run_path(path, run_name="__main__")
        return
    try:
        with open(path, "rb") as file:
            code = compile(file.read(), path, "exec")
    except OSError as error:
        sys.exit(f"python -m facula: cannot open file {path!r}: [Errno {error.errno}] {error.strerror}")
    sys.path[0] = os.path.dirname(os.path.realpath(path))
    _execute(code, path)


def _execute(code, path):
    """Runs `code` as the module __main__, which stays in place for pickles and spawned processes to find."""
    main_module = types.ModuleType("__main__")
    main_module.__dict__.update(__builtins__=__builtins__, __spec__=None)
    if path is not None:
        main_module.__dict__.update(__file__=path, __cached__=None)
    sys.modules["__main__"] = main_module
    exec(code, main_module.__dict__)
