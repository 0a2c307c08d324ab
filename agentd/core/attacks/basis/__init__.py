"""What every attack is made of: what it claims, what it may know."""
