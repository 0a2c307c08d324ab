"""The same algorithms without sockets: agents on an in-memory network, and vectorised."""
