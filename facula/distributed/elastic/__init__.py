"""Start the processes of a job, monitor them, and start them again after a failure."""
