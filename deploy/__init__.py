"""Testbeds: a plan of who listens where, and the runtimes that carry it out."""
