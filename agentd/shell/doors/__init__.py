"""What stands between a listening socket and whoever comes: its place, its lock, and who is let in."""
