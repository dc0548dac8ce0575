"""Define the parts of DataLoader: fetching, collating, pinning, and the worker processes with their channel."""

from . import collate, fetch, pin_memory, worker  # noqa: F401

#: Seconds between a waiting worker's looks at whether its parent still lives.
MP_STATUS_CHECK_INTERVAL = 5.0
