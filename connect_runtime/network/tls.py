"""TLS contexts for clients and servers from security settings.

OpenSSL reads its own certificate and key from files only: on Linux they are passed as files in
memory, so keys never reach a disk.
"""

from __future__ import annotations

import os
import ssl

from connect_runtime.base.errors import FatalError
from connect_runtime.protocol.security_settings import SecuritySettings


class UnusableCertificate(FatalError):
    """A PEM text that OpenSSL does not take. `store` begins the names of its properties."""

    def __init__(self, store: str, problem: str) -> None:
        super().__init__(f"{store}: {problem}")
        self.store = store
        self.problem = problem


def find_unusable_certificates(security: SecuritySettings) -> list[UnusableCertificate]:
    """What is wrong with the certificates, before anybody connects: all of it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    found: list[UnusableCertificate] = []
    for load in (_load_authorities, _load_own_certificate):
        try:
            load(context, security)
        except UnusableCertificate as error:
            found.append(error)
    return found


def create_tls_context(security: SecuritySettings) -> ssl.SSLContext | None:
    """None without TLS. Raises UnusableCertificate; keys never touch a disk on Linux."""
    if not security.uses_tls:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = security.check_hostname
    context.verify_mode = ssl.CERT_REQUIRED
    if security.ca_pem is None:
        context.load_default_certs()
    _load_authorities(context, security)
    _load_own_certificate(context, security)
    return context


def create_server_tls_context(
    security: SecuritySettings, *, clients: ssl.VerifyMode
) -> ssl.SSLContext:
    """For those who connect to us. `clients`: must they show a certificate that we trust?

    Raises UnusableCertificate.
    """
    if security.certificate_pem is None:
        raise UnusableCertificate("ssl.keystore", "a server needs a certificate and its key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = clients
    if clients is not ssl.CERT_NONE and security.ca_pem is None:
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
    _load_authorities(context, security)
    _load_own_certificate(context, security)
    return context


def _load_authorities(context: ssl.SSLContext, security: SecuritySettings) -> None:
    if security.ca_pem is None:
        return
    # Bundles have comments in every language, which Python does not let through.
    text = security.ca_pem.encode("ascii", "ignore").decode("ascii")
    try:
        context.load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError) as error:  # ValueError: it is empty
        said = getattr(error, "reason", None) or error
        raise UnusableCertificate("ssl.truststore", f"OpenSSL says {said}") from None


def _load_own_certificate(context: ssl.SSLContext, security: SecuritySettings) -> None:
    """OpenSSL reads certificates of its own side from files only: give it one that is in memory."""
    if security.certificate_pem is None:
        return
    chain = security.certificate_pem.encode()
    key = (security.key_pem or "").encode()
    text = chain if chain == key else chain + b"\n" + key
    descriptor = os.memfd_create("client-certificate", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(text)
        # A callable, so that an encrypted key without a password fails instead of asking on a tty.
        context.load_cert_chain(
            f"/proc/self/fd/{descriptor}", password=lambda: security.key_password or ""
        )
    except (ssl.SSLError, OSError, ValueError) as error:
        said = getattr(error, "reason", None) or type(error).__name__
        raise UnusableCertificate(
            "ssl.keystore",
            f"OpenSSL says {said}; check that certificate, key and ssl.key.password belong "
            "together",
        ) from None
    finally:
        os.close(descriptor)
