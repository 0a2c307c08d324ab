"""One web page that shows a run, live or again: it reads the run directory and decides nothing."""
