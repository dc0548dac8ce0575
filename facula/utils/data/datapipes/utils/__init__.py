"""Open files for data pipes, and continue a stream where it stopped."""
