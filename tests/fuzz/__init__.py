"""Fuzzers: `python -m tests.fuzz.hostile` and `python -m tests.fuzz.layouts` (see --help); short rounds are in the suite."""
