"""A testbed as processes of this machine."""
