"""The algorithms as value-in, value-out machines: no sockets, no clocks, no files, no global randomness."""
