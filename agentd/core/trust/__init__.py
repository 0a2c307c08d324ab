"""What is believed of what others say of themselves: who takes part, which lives, how far anybody can be."""
