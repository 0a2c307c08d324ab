"""A testbed as containers: Docker, the image, compose and swarm."""
