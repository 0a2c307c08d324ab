"""Where settings come from: flags, AGENTD_… variables and TOML files, and how each of them is told."""
