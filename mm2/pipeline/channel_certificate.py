"""The certificate of one run: what copies on other hosts know their worker by."""

from __future__ import annotations

import hashlib
import os
import ssl

from connect_runtime.system import certificates


def server_context(*, host: str, wall_ms: int) -> tuple[ssl.SSLContext, bytes]:
    """A TLS context with a certificate made now, and the SHA-256 of that certificate (DER).

    The key exists in this process only: OpenSSL reads it from a file, so it is given one in memory.
    """
    authority = certificates.Authority.create("mm2 run", wall_ms=wall_ms)
    issued = authority.issue("mm2 control channel", hosts=[host], wall_ms=wall_ms)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    descriptor = os.memfd_create("control-certificate", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(issued.certificate_pem + issued.key_pem)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
    der = ssl.PEM_cert_to_DER_cert(issued.certificate_pem.decode("ascii"))
    return context, hashlib.sha256(der).digest()
