"""Fuzzers: `python -m tests.fuzz.hostile` and `python -m tests.fuzz.layouts` (see --help); short rounds are in the suite."""

import os

# Threads that spin on a busy machine look like hangs.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
