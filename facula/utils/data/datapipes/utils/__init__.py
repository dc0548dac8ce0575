"""Open files, and going on where a stream stopped, for data pipes."""
