"""Errors of reading and running archives."""


class ScriptError(RuntimeError):
    """The archive's program holds something that TorchScript has not, or that is not supported here."""
