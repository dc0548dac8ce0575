"""Define the base classes of passes, and the partitioner."""
