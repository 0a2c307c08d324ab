"""The library: what `from agentd import …` gives to programs of somebody else."""
