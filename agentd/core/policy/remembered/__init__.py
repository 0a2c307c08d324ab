"""What sealed remembers of others: what fades, and who was away."""
