"""The verbs of the command line, one module each, imported when called.

This is the one place of the package that may reach for `topology` and `deploy`, lazily.
"""
