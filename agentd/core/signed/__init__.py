"""When signatures are looked at, and what follows from them; who makes and tests them is handed in."""

VERIFY_EVERY = 8
"""Trials within which what counts before it was verified is verified, if nothing else is said."""
