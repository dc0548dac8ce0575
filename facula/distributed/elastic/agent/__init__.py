"""The part of a launcher that looks after the processes of one machine."""
