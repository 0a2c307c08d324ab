"""How fast this machine runs agentd: always as ratios or medians of repetitions taken in one run."""
