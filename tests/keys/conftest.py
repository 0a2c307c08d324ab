from loopback_fixtures import addresses, context, keep, log, log_file, stop

__all__ = ["addresses", "context", "keep", "log", "log_file", "stop"]
