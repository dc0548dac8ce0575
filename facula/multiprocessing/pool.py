"""Process pools: the standard ones, which already send tensors as shared memory."""

from multiprocessing.pool import Pool, ThreadPool  # noqa: F401
