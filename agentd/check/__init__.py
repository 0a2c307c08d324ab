"""Worlds of faults by chance, judged by an oracle that sees everything: `stage` tells how they are played."""
