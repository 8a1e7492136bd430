"""Creates TLS contexts for clients and servers from security settings.

OpenSSL can read a certificate and key only from files. On Linux, in-memory files are used so that
keys are never written to disk.
"""

from __future__ import annotations

import os
import ssl

from connect_runtime.base.errors import FatalError
from connect_runtime.protocol.security_settings import SecuritySettings


class UnusableCertificate(FatalError):
    """Raised for a certificate or key in PEM form that OpenSSL rejects. `store` is the prefix of
    the property names, such as `ssl.keystore`."""

    def __init__(self, store: str, problem: str) -> None:
        super().__init__(f"{store}: {problem}")
        self.store = store
        self.problem = problem


def find_unusable_certificates(security: SecuritySettings) -> list[UnusableCertificate]:
    """Return an error for each certificate or key that OpenSSL rejects, without connecting to a
    server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    found: list[UnusableCertificate] = []
    for load in (_load_certificate_authorities, _load_own_certificate):
        try:
            load(context, security)
        except UnusableCertificate as error:
            found.append(error)
    return found


def create_tls_context(security: SecuritySettings) -> ssl.SSLContext | None:
    """Create the TLS context of a client; None if the settings do not use TLS. Raises
    UnusableCertificate."""
    if not security.uses_tls:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = security.check_hostname
    context.verify_mode = ssl.CERT_REQUIRED
    if security.ca_pem is None:
        context.load_default_certs()
    _load_certificate_authorities(context, security)
    _load_own_certificate(context, security)
    return context


def create_server_tls_context(
    security: SecuritySettings, *, client_verify_mode: ssl.VerifyMode
) -> ssl.SSLContext:
    """Create the TLS context of a server.

    `client_verify_mode` determines whether clients must present a trusted certificate. Raises
    UnusableCertificate.
    """
    if security.certificate_pem is None:
        raise UnusableCertificate(
            "ssl.keystore", "a TLS server needs a certificate and a key: set both"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = client_verify_mode
    if client_verify_mode is not ssl.CERT_NONE and security.ca_pem is None:
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
    _load_certificate_authorities(context, security)
    _load_own_certificate(context, security)
    return context


def _load_certificate_authorities(context: ssl.SSLContext, security: SecuritySettings) -> None:
    if security.ca_pem is None:
        return
    # Bundles may contain non-ASCII comments, which Python rejects.
    text = security.ca_pem.encode("ascii", "ignore").decode("ascii")
    try:
        context.load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError) as error:  # ValueError: no certificate in the text
        said = getattr(error, "reason", None) or error
        raise UnusableCertificate("ssl.truststore", f"OpenSSL reports {said}") from None


def _load_own_certificate(context: ssl.SSLContext, security: SecuritySettings) -> None:
    """Load the certificate and key through an in-memory file, because OpenSSL reads them only from
    files."""
    if security.certificate_pem is None:
        return
    chain = security.certificate_pem.encode()
    key = (security.key_pem or "").encode()
    text = chain if chain == key else chain + b"\n" + key
    descriptor = os.memfd_create("client-certificate", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(text)
        # A callable, so that a missing password of an encrypted key fails instead of prompting.
        context.load_cert_chain(
            f"/proc/self/fd/{descriptor}", password=lambda: security.key_password or ""
        )
    except (ssl.SSLError, OSError, ValueError) as error:
        said = getattr(error, "reason", None) or type(error).__name__
        raise UnusableCertificate(
            "ssl.keystore",
            f"OpenSSL reports {said}; check that the certificate, the key and ssl.key.password "
            "match",
        ) from None
    finally:
        os.close(descriptor)
