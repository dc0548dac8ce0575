"""Provide passes in use, and `make_fx`."""
