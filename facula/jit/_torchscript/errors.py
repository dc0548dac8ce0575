"""Define the errors of reading and running archives."""


class ScriptError(RuntimeError):
    """Report that the archive's program has something that TorchScript lacks, or that is not supported here."""
