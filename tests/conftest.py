"""Makes the tests use the installed package: an unbuilt checkout as current directory would hide it."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

if not list((ROOT / "facula").glob("_C.*")):
    sys.path[:] = [entry for entry in sys.path if Path(entry or os.getcwd()).resolve() != ROOT]
