"""Provide process pools: the standard ones, which already send tensors as shared memory."""

from multiprocessing.pool import Pool as Pool
from multiprocessing.pool import ThreadPool as ThreadPool
