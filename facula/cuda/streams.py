"""Streams and events: names of `facula.cuda`."""

from facula.cuda import Event, ExternalStream, Stream  # noqa: F401
