"""Who listens where, who peers with whom, and that as words of a command line or as a document."""
