"""agentd: a networked agent daemon for private and byzantine-proof cooperative bandits."""

__version__ = "0.1.0"
