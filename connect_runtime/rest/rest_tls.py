"""TLS settings of the REST API, for `https` listeners and for requests to other workers.

As in Java, if any setting starts with `listeners.https.` (for admin listeners:
`admin.listeners.https.`), only the settings with this prefix are used, and the `ssl.*` settings of
the worker are ignored.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from connect_runtime.api.errors import ConfigError
from connect_runtime.network import tls_contexts
from connect_runtime.network.tls_contexts import UnusableCertificate
from connect_runtime.protocol import security_settings
from connect_runtime.protocol.tls_settings import KeyStoreFileReader

LISTENERS_PREFIX = "listeners.https."
ADMIN_LISTENERS_PREFIX = "admin.listeners.https."

_CLIENT_AUTH_CONFIG = "ssl.client.auth"
_CLIENT_AUTH_MODES = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpsContexts:
    """TLS contexts of the REST API: `server` for https listeners, `client` for requests to other
    workers."""

    server: ssl.SSLContext
    client: ssl.SSLContext


class HttpsConfigError(ConfigError):
    """Raised for invalid TLS settings of the REST API. `problems` maps each invalid key to the
    reason."""

    def __init__(self, problems: Iterable[tuple[str, str]]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(f"{key}: {text}" for key, text in self.problems))


def read_https_contexts(
    properties: Mapping[str, str], *, files: KeyStoreFileReader, prefix: str = LISTENERS_PREFIX
) -> HttpsContexts:
    """Create the TLS contexts of the REST API from worker properties. Raises `HttpsConfigError`
    with all problems."""
    own = {
        key.removeprefix(prefix): value
        for key, value in properties.items()
        if key.startswith(prefix)
    }
    named = prefix if own else ""
    chosen = own or {key: value for key, value in properties.items() if key.startswith("ssl.")}
    clients = chosen.pop(_CLIENT_AUTH_CONFIG, "none").strip().lower()
    if clients not in _CLIENT_AUTH_MODES:
        text = f"{clients} is not supported; allowed are {', '.join(_CLIENT_AUTH_MODES)}"
        raise HttpsConfigError([(f"{named}{_CLIENT_AUTH_CONFIG}", text)])
    parsed = security_settings.parse_security_settings(
        {**chosen, "security.protocol": "SSL"}, files=files
    )
    if parsed.security is None:
        raise HttpsConfigError(
            (f"{named}{each.key}", f"{each.problem}; {each.allowed}") for each in parsed.errors
        )
    try:
        server = tls_contexts.create_server_tls_context(
            parsed.security, client_verify_mode=_CLIENT_AUTH_MODES[clients]
        )
        client = tls_contexts.create_tls_context(parsed.security)
    except UnusableCertificate as error:
        raise HttpsConfigError([(f"{named}{error.store}", error.problem)]) from error
    assert client is not None
    return HttpsContexts(server=server, client=client)
