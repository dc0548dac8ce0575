"""Backends of `torch.compile`, by name."""
