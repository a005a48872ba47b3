"""The network of a run: a proxy, which programs find by their environment.

Loaded only for runs that have a network.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ROOT = "/tmp"
"""The folder of the bundle: private to the sandbox, and removed with it."""

SYSTEM = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
"""Where distributions have the certificates that programs trust. The first that exists is used."""

PROXIES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
TRUST = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT")

# The variables that are set now, and all that have ever been.
_set: dict[str, str] = {}
_known: set[str] = set()


def apply(network: dict[str, Any] | None) -> None:
    """Set the environment for a run, whatever earlier code has set, or reset it if there is no network."""
    wanted = {} if network is None else _environment(network)
    for name in _set:
        os.environ.pop(name, None)
    _set.clear()
    _set.update(wanted)
    _known.update(wanted)
    os.environ.update(wanted)
    if wanted:
        _avoid_messages()


def is_on() -> bool:
    """Whether the current run has a network."""
    return bool(_set)


def trusted() -> str | None:
    """The file of the certificates that programs trust, if there is one."""
    return _set.get(TRUST[0]) or next(filter(os.path.exists, SYSTEM), None)


def prelude() -> list[str]:
    """Shell code that sets the environment, for shells that restore another one first."""
    from coracle_guest.shell_state import quote

    absent = sorted(_known - _set.keys())
    return [f"unset {name}" for name in absent] + [f"export {name}={quote(value)}" for name, value in _set.items()]


def _environment(network: dict[str, Any]) -> dict[str, str]:
    address = network["proxy"]
    # No ALL_PROXY with SOCKS: libraries that do not speak it, such as httpx without an extra package, refuse to start.
    environment = {name: f"http://{address}" for name in PROXIES}
    additional = network.get("certificates")
    if additional:
        bundle = _write_bundle(additional)
        environment.update((name, bundle) for name in TRUST)
    return environment


def _write_bundle(additional: str) -> str:
    """Write the system's certificates and the additional ones to a file, and return its path."""
    path = os.path.join(ROOT, ".coracle-certificates.pem")
    content = b""
    for system in SYSTEM:
        try:
            with open(system, "rb") as file:
                content = file.read()
            break
        except OSError:
            continue
    if content and not content.endswith(b"\n"):
        content += b"\n"
    # Code may have put a folder or a link in this place; whatever it is, it is replaced.
    fresh = f"{path}.{os.getpid()}"
    with open(fresh, "wb") as file:
        file.write(content + additional.encode())
    os.replace(fresh, path)
    return path


class _Absent:
    """An attribute that does not exist, although a base class has it."""

    def __get__(self, instance: object, owner: object = None) -> None:
        raise AttributeError("sendmsg")


def _avoid_messages() -> None:
    """Have asyncio send with `send`: `sendmsg`, which newer versions use, is refused because it can send descriptors."""
    import socket

    if "sendmsg" not in vars(socket.socket):
        socket.socket.sendmsg = _Absent()  # type: ignore[method-assign,assignment]
    events = sys.modules.get("asyncio.selector_events")
    if events is not None:
        events._HAS_SENDMSG = False  # type: ignore[attr-defined]
