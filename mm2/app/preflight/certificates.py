"""Until when certificates hold: those that brokers show, and our own."""

from __future__ import annotations

import socket
import ssl

from cryptography import x509

from connect_runtime.wire.codec import security_settings
from connect_runtime.wire.connection import security


def shown_until_ms(
    address: str, settings: security_settings.Security, timeout_s: float
) -> int | None:
    """Of who answers at "host:port"; None where there is no TLS, or no answer."""
    context = security.tls_context(settings)
    if context is None:
        return None
    host, _, port = address.rpartition(":")
    name = host.strip("[]")
    try:
        with (
            socket.create_connection((name, int(port)), timeout_s) as link,
            context.wrap_socket(link, server_hostname=name) as told,
        ):
            shown = told.getpeercert()
    except (OSError, ValueError):
        return None
    until = (shown or {}).get("notAfter")
    return ssl.cert_time_to_seconds(until) * 1000 if isinstance(until, str) else None


def own_until_ms(settings: security_settings.Security) -> int | None:
    """None where we show none."""
    if settings.certificate_pem is None or not settings.uses_tls:
        return None
    found = x509.load_pem_x509_certificate(settings.certificate_pem.encode())
    return round(found.not_valid_after_utc.timestamp() * 1000)
