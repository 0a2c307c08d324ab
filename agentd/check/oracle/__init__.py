"""What must be true whatever happens, each computed again in the most obvious way."""
