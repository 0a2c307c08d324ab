"""What of the machine that built an image must not be in it, and whether it is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

from deploy.containers.docker import Docker

PUBLIC = re.compile(
    r"(^|\.)(pypi\.org|pythonhosted\.org|debian\.org|python\.org|ubuntu\.com|docker\.(com|io)|github\.com)$"
)
"""Hosts that the documentation of half of all packages names."""
PEM = re.compile(rb"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)
_URL_HOST = re.compile(r"[a-z]+://(?:[^/@\s'\"]*@)?([\w.-]+)")


def private_hosts() -> set[str]:
    """Package indexes, mirrors and proxies that this machine is set up with, but for those that everybody knows."""
    return {host for text in _settings() for host in _URL_HOST.findall(text) if not PUBLIC.search(host) and "." in host}


def added_certificates() -> set[bytes]:
    """Certificates that this machine trusts and its distribution does not."""
    trusted = {
        cert for place in ("/etc/ssl/certs", "/usr/local/share/ca-certificates") for cert in _certificates(place)
    }
    return trusted - set(_certificates("/usr/share/ca-certificates"))


def files_of(docker: Docker, image: str, place: Path) -> Iterator[tuple[str, bytes]]:
    """Every file of an image with its content."""
    container = docker.run(["create", "--network", "none", image]).stdout.strip()
    try:
        docker.run(["export", "--output", str(place), container])
    finally:
        docker.run(["rm", container])
    with tarfile.open(place) as tar:
        for entry in tar:
            file = tar.extractfile(entry) if entry.isfile() else None
            if file is not None:
                yield entry.name, file.read()


def certificates_in(content: bytes) -> set[bytes]:
    """The certificates of a file, without the line breaks that differ between files."""
    return {b"".join(block.split()) for block in PEM.findall(content)}


def _settings() -> Iterator[str]:
    yield subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False, timeout=60
    ).stdout
    yield from (value for name, value in os.environ.items() if name.lower().endswith(("_proxy", "index_url")))
    for path in [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]:
        if path.is_file():
            yield path.read_text(encoding="utf-8", errors="replace")


def _certificates(place: str) -> Iterator[bytes]:
    for path in Path(place).rglob("*"):
        if path.is_file():
            yield from certificates_in(path.read_bytes())
