"""Starting the processes of a job, watching over them, and starting them again after a failure."""
