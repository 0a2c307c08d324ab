"""Attacks that must know what honest agents release."""
