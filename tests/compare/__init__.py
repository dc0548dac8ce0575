"""Comparisons with PyTorch itself, for machines that have it: `make compare`; no part of the suite."""
