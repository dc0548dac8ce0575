"""Queues: the standard ones, which already send tensors as shared memory."""

from multiprocessing.queues import JoinableQueue, Queue, SimpleQueue  # noqa: F401
