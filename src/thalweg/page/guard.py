"""Who may ask the page for something: pure checks of a request's heads.

The address that is given out carries the token behind ``#``: browsers keep that part to themselves, so it is in no log
and in no Referer, and the page's own script sends it as a head. Without cookies other sites cannot use the token of a
visitor, and other servers of this machine, whatever their port, never get it. ``Host`` must be a name of this server:
a foreign name that leads here (DNS rebinding) is refused before anything else.
"""

from __future__ import annotations

import hmac
import ipaddress
import socket
from collections.abc import Mapping
from typing import Final

#: What a document of the page may load and do: its own files, and nothing that makes markup of text.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
#: Heads of every answer.
HEADS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_LOCAL: Final = frozenset({"127.0.0.1", "localhost", "::1"})


def names_of(host: str) -> frozenset[str]:
    """The names by which a server bound to ``host`` may be called; addresses, too, where it is bound to all."""
    if not is_everywhere(host):
        return _LOCAL | {host.lower()}
    return _LOCAL | {socket.gethostname().lower(), socket.getfqdn().lower()}


def is_everywhere(host: str) -> bool:
    """Whether it stands for all addresses of the machine."""
    return host in ("0.0.0.0", "::")


def is_known_host(given: str | None, host: str) -> bool:
    """Whether a request's ``Host`` names a server that is bound to ``host``."""
    name = _name(given or "")
    return name in names_of(host) or (is_everywhere(host) and _is_address(name))


def is_token(given: str | None, token: str) -> bool:
    """Whether a request's ``Authorization`` has the token; takes the same time for every wrong one."""
    return hmac.compare_digest((given or "").encode("utf-8", "replace"), f"Bearer {token}".encode())


def is_same_origin(heads: Mapping[str, str]) -> bool:
    """Whether a request that changes something comes from the page itself, or from no browser."""
    if heads.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        return False
    origin, host = heads.get("Origin"), heads.get("Host", "")
    return origin is None or origin in (f"http://{host}", f"https://{host}")


def _name(given: str) -> str:
    """The name in ``name``, ``name:port``, ``[v6]`` or ``[v6]:port``."""
    if given.startswith("["):
        return given[1:].partition("]")[0].lower()
    name, colon, port = given.rpartition(":")
    return (name if colon and port.isdecimal() else given).lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
