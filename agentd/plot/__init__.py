"""Curves as pictures, with and without matplotlib."""
