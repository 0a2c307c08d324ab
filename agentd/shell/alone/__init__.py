"""What drives an agent whose arms are its own, without an environment."""
