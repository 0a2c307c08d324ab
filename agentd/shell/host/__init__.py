"""Many agents in one process, in step with those of other processes."""
