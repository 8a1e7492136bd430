"""Where copies reach this process: a Unix socket on one host, TLS with a certificate of this run
beyond."""

from __future__ import annotations

import socket

from connect_runtime.base import clock
from mm2.app.settings import settings
from mm2.pipeline import channel_certificate, control_server


def listen(spark: settings.SparkSettings, *, now: clock.Clock) -> control_server.ControlServer:
    """Raises `FatalError` when the address cannot be bound."""
    if spark.engine == "inline" or spark.is_local:
        return control_server.listen_unix(now=now)
    host = spark.control_host or socket.gethostname()
    tls, fingerprint = channel_certificate.server_context(host=host, wall_ms=now.wall_ms())
    return control_server.listen_tls(
        now=now,
        tls=tls,
        fingerprint=fingerprint,
        bind=("", spark.control_port),
        advertised_host=host,
    )
