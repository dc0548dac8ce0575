"""What passes are made with, and the partitioner."""
