"""Means of possibly contaminated samples, behind one Protocol."""
