"""Passes in use, and `make_fx`."""
