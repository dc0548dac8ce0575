"""Makes the tests use the installed package: an unbuilt checkout as current directory would hide it."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

start = os.getcwd()
if not list((ROOT / "facula").glob("_C.*")):
    os.chdir(ROOT / "tests")  # child processes look for modules in the current directory first
    sys.path[:] = [entry for entry in sys.path if Path(entry or start).resolve() != ROOT]
