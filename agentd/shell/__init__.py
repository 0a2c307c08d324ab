"""asyncio and ZeroMQ around the core; it waits and decides nothing."""
