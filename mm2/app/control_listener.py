"""Where copies reach this process: a Unix socket on one host, TLS with a certificate of this run
beyond."""

from __future__ import annotations

import hashlib
import os
import socket
import ssl

from connect_runtime.base import clock
from connect_runtime.system import certificates
from mm2.app.settings import settings
from mm2.pipeline import control_server

VALID_DAYS = 365


def listen(spark: settings.SparkSettings, *, now: clock.Clock) -> control_server.ControlServer:
    """Raises `FatalError` when the address cannot be bound."""
    if spark.engine == "inline" or spark.is_local:
        return control_server.listen_unix(now=now)
    host = spark.control_host or socket.gethostname()
    authority = certificates.Authority.create("mm2 control channel", wall_ms=now.wall_ms())
    issued = authority.issue(host, hosts=[host], wall_ms=now.wall_ms(), valid_days=VALID_DAYS)
    der = ssl.PEM_cert_to_DER_cert(issued.certificate_pem.decode())
    return control_server.listen_tls(
        now=now,
        tls=_context(issued),
        fingerprint=hashlib.sha256(der).digest(),
        bind=("", spark.control_port),
        advertised_host=host,
    )


def _context(issued: certificates.Certificate) -> ssl.SSLContext:
    """OpenSSL reads its own side's certificate from files only: give it one that is in memory."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    descriptor = os.memfd_create("control-certificate", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(issued.certificate_pem + issued.key_pem)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
    return context
