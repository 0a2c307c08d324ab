"""What people look at: how runs and agents are doing, and what states hold."""
