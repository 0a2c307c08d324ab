"""The verbs of keys and rosters."""
