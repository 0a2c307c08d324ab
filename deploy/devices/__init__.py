"""Bundles: one signed archive for each device, with all that it needs and nobody else's secrets."""
