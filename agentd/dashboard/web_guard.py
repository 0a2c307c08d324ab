"""Who may ask what: pure checks of a request's head, made before anything else is looked at.

The page is for browsers on this machine, and a browser also carries out what other sites tell it. So:

- A request must name us by an address of ours (Host): a name that somebody pointed at 127.0.0.1 is refused, which ends
  DNS rebinding.
- What another site makes a browser ask for (Sec-Fetch-Site, Origin) is refused, reading included.
- Whoever wants to change something needs the token, in a header that no form and no foreign script can set, compared in
  constant time, and the page's own Origin. Without --allow-chaos there is no token, and nothing can be changed.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass

TOKEN_HEADER = "X-Agentd-Token"  # noqa: S105 - the name of a header
LONGEST_HEAD = 300
_LOCAL_NAMES = ("localhost",)
_OWN_SITES = (None, "same-origin", "none")

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""With every answer, refusals too."""


@dataclass(frozen=True, slots=True)
class Guard:
    """What this server is called, and what lets somebody change something."""

    port: int
    token: str | None = None
    """None: nobody may change anything."""
    names: tuple[str, ...] = ()
    """Names beside numbers and localhost that it may be asked by."""

    def refusal(self, method: str, headers: Mapping[str, str]) -> tuple[int, str] | None:
        """Why a request is refused, and with which status; None: it may go on."""
        host = headers.get("Host", "")
        if len(host) > LONGEST_HEAD or not self._is_us(host):
            return 421, "this server answers to its own address only"
        if method not in ("GET", "HEAD", "POST"):
            return 405, "only GET, HEAD and POST are known here"
        origin = headers.get("Origin")
        if origin is not None and origin != f"http://{host}":
            return 403, "another site may not ask this server"
        if headers.get("Sec-Fetch-Site") not in _OWN_SITES and not _is_a_visit(method, headers):
            return 403, "another site may not ask this server"
        return self._refused_change(origin, headers) if method == "POST" else None

    def _refused_change(self, origin: str | None, headers: Mapping[str, str]) -> tuple[int, str] | None:
        if self.token is None:
            return 403, "nothing can be changed here: the dashboard was started without --allow-chaos"
        if origin is None:
            return 403, "a change must come from the page itself (no Origin was told)"
        told = headers.get(TOKEN_HEADER, "")
        if not hmac.compare_digest(told.encode(), self.token.encode()):
            return 403, "the token is missing or wrong: open the address that the dashboard printed"
        return None

    def _is_us(self, host: str) -> bool:
        name, _, port = host.rpartition(":") if not host.endswith("]") and ":" in host else (host, "", "80")
        if not port.isascii() or not port.isdigit() or int(port[:6]) != self.port:
            return False
        return name.lower() in (*_LOCAL_NAMES, *self.names) or _is_number(name)


def _is_a_visit(method: str, headers: Mapping[str, str]) -> bool:
    """Whether somebody follows a link to the page, which shows them the page and tells the other site nothing."""
    return (
        method == "GET" and headers.get("Sec-Fetch-Mode") == "navigate" and headers.get("Sec-Fetch-Dest") == "document"
    )


def _is_number(name: str) -> bool:
    """Whether a host is an address and not a name: no DNS stands behind it."""
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True
