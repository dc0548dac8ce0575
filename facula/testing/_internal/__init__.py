"""Provide parts of PyTorch's internal testing module that tests of extensions import."""
