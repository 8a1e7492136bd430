"""TLS of the REST API: of its `https` listeners, and of requests from worker to worker.

As in Java, settings with the prefix (`listeners.https.`, `admin.listeners.https.`) count alone
where there is any, and else the worker's own `ssl.*`.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from connect_runtime.api import errors
from connect_runtime.wire.codec import security_settings, tls_settings
from connect_runtime.wire.connection import security

LISTENERS = "listeners.https."
ADMIN_LISTENERS = "admin.listeners.https."

_CLIENT_AUTH = "ssl.client.auth"
_CLIENTS = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Https:
    """`server` for listeners, `client` for requests to other workers."""

    server: ssl.SSLContext
    client: ssl.SSLContext


class BadHttps(errors.ConfigError):
    """`problems`: each key that must change, and why."""

    def __init__(self, problems: Iterable[tuple[str, str]]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(f"{key}: {text}" for key, text in self.problems))


def read(
    properties: Mapping[str, str], *, files: tls_settings.Files, prefix: str = LISTENERS
) -> Https:
    """From a worker's properties. Raises `BadHttps` with all that is wrong."""
    own = {
        key.removeprefix(prefix): value
        for key, value in properties.items()
        if key.startswith(prefix)
    }
    named = prefix if own else ""
    chosen = own or {key: value for key, value in properties.items() if key.startswith("ssl.")}
    clients = chosen.pop(_CLIENT_AUTH, "none").strip().lower()
    if clients not in _CLIENTS:
        text = f"{clients} is unknown; allowed are {', '.join(_CLIENTS)}"
        raise BadHttps([(f"{named}{_CLIENT_AUTH}", text)])
    parsed = security_settings.parse({**chosen, "security.protocol": "SSL"}, files=files)
    if parsed.security is None:
        raise BadHttps(
            (f"{named}{each.key}", f"{each.problem}; {each.allowed}") for each in parsed.errors
        )
    try:
        server = security.server_tls_context(parsed.security, clients=_CLIENTS[clients])
        client = security.tls_context(parsed.security)
    except security.UnusableCertificate as error:
        raise BadHttps([(f"{named}{error.store}", error.problem)]) from error
    assert client is not None
    return Https(server=server, client=client)
