"""Testbeds: a plan of who listens where, and the runtimes that carry it out."""

from __future__ import annotations

import os

# One BLAS thread per process, set before anything here imports numpy: agents are processes already, and a process with
# a pool of idle threads forks badly and counts several times against every limit.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MALLOC_ARENA_MAX", "1")  # one heap per agent instead of one per thread
