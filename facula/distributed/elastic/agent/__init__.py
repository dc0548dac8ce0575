"""Define the part of a launcher that manages the processes of one machine."""
