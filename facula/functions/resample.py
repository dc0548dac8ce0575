"""Functions at the top level that resample."""

from __future__ import annotations


def affine_grid_generator(theta, size, align_corners):
    """As nn.functional.affine_grid."""
    from facula.nn import functional

    return functional.affine_grid(theta, size, align_corners)
