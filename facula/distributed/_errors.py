"""Define the errors of communication between processes."""


class DistError(RuntimeError):
    """Report a failure between processes."""


class DistBackendError(DistError):
    """Report a failure of a backend."""


class DistNetworkError(DistError):
    """Report a failure of a connection."""


class DistStoreError(DistError):
    """Report a failure of a store."""


class QueueEmptyError(DistStoreError):
    """Report that a queue of a store is empty."""
