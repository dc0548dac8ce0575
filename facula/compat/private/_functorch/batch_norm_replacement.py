"""Replace batch normalization by one that writes no running statistics."""

from facula.func import replace_all_batch_norm_modules_

__all__ = ["replace_all_batch_norm_modules_"]
