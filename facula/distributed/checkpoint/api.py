"""Provide the error of checkpoints."""

from .filesystem import CheckpointException

__all__ = ["CheckpointException"]
