"""Where worlds are played: the daemon and the environment as they are shipped, on time, lines and disks of memory."""
