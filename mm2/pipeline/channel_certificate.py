"""The certificate of one run: what copies on other hosts know their worker by."""

from __future__ import annotations

import hashlib
import ssl
import tempfile
from pathlib import Path

from connect_runtime.system import certificates


def server_context(*, host: str, wall_ms: int) -> tuple[ssl.SSLContext, bytes]:
    """A TLS context with a certificate made now, and the SHA-256 of that certificate (DER).

    The key exists in this process only: Python's ssl reads it from a file, which is gone on return.
    """
    authority = certificates.Authority.create("mm2 run", wall_ms=wall_ms)
    issued = authority.issue("mm2 control channel", hosts=[host], wall_ms=wall_ms)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with tempfile.TemporaryDirectory(prefix="mm2-") as directory:
        chain, key = Path(directory) / "chain.pem", Path(directory) / "key.pem"
        chain.write_bytes(issued.certificate_pem)
        key.touch(mode=0o600)
        key.write_bytes(issued.key_pem)
        context.load_cert_chain(chain, key)
    der = ssl.PEM_cert_to_DER_cert(issued.certificate_pem.decode("ascii"))
    return context, hashlib.sha256(der).digest()
