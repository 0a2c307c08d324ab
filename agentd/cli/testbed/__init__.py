"""The verbs around testbeds."""
