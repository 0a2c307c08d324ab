"""One module per algorithm, behind one small Protocol."""
