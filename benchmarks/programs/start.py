"""Run a program under PyTorch with further packages behind the interpreter's own: `start.py FOLDER [-m] PROGRAM ARGUMENTS`."""

import runpy
import sys

_, folder, *rest = sys.argv
sys.path.append(folder)
module = rest[0] == "-m"
sys.argv = rest[1:] if module else rest
if module:
    sys.path[0] = ""
    runpy.run_module(rest[1], run_name="__main__", alter_sys=True)
else:
    sys.path[0] = str(rest[0]).rpartition("/")[0] or "."
    runpy.run_path(rest[0], run_name="__main__")
