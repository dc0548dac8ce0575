"""Define the functions of the top level that resample."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from facula import Tensor


def affine_grid_generator(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    """Return where a grid of points lands under affine maps: what `grid_sampler` takes to move, turn and scale images.

    Args:
        theta: (N, 2, 3) for images, or (N, 3, 4) for volumes: the maps.
        size: of the result to be sampled, (N, C, H, W) or (N, C, D, H, W).
        align_corners: whether -1 and 1 are the centers of the outermost pixels, or their outer edges.

    Returns: (N, H, W, 2) or (N, D, H, W, 3): the place of each point, between -1 and 1 within the image.

    >>> torch.affine_grid_generator(torch.tensor([[[1., 0., 0.], [0., 1., 0.]]]), [1, 1, 2, 2], True)
    tensor([[[[-1., -1.],
              [ 1., -1.]],
    <BLANKLINE>
             [[-1.,  1.],
              [ 1.,  1.]]]])
    """
    from facula.nn import functional

    return functional.affine_grid(theta, size, align_corners)
