"""`python -m generate OUT`: the site, or what is wrong with it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from generate.accessible import make_accessible
from generate.assembling import assemble
from generate.outside import requests_of


def build(out: Path) -> int:
    """Assemble, build strictly, and look for what would be fetched from elsewhere; 0 where all is well."""
    from sphinx.cmd.build import build_main

    source, html = out / "source", out / "html"
    for place in (source, html):  # a page that is gone must not stay on the site
        shutil.rmtree(place, ignore_errors=True)
    assemble(source)
    strict = ["--fail-on-warning", "--keep-going", "--nitpicky", "--quiet", "--jobs", "1"]
    here = str(Path(__file__).parent)
    if code := build_main([*strict, "-b", "html", "-c", here, "-d", str(out / "doctrees"), str(source), str(html)]):
        return code
    make_accessible(html)
    asked = requests_of(html)
    for line in asked:
        sys.stderr.write(f"a built page asks another machine: {line}\n")
    return 1 if asked else 0


if __name__ == "__main__":
    place = Path(sys.argv[1] if len(sys.argv) > 1 else "build/docs").absolute()
    if failed := build(place):
        sys.exit(failed)
    sys.stdout.write(f"open {place / 'html' / 'index.html'}\n")
