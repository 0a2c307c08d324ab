"""A testbed from its start to its end, whatever it runs in."""
