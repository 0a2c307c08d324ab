"""The shared bandit: reward distributions, regret, and the service that holds them."""
