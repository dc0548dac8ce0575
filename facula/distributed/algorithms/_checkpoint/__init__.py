"""Modules whose activations are computed again, or kept elsewhere."""
