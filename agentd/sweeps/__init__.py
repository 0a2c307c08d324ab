"""Many simulated runs that differ in chosen settings: a grid of configurations, each repeated, in one tidy table."""
