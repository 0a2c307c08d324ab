"""The documentation site: pages of the repository taken in, and reference pages made from the code, every time anew.

`python -m generate OUT` (with docs/ on the path; `make docs` does it) assembles the sources in OUT/source, lets Sphinx
build OUT/html and fails on any warning, and on a built page that would ask anything of another machine.
"""
