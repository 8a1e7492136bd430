"""Key stores and PEM files from disk: PKCS12, as keytool and openssl write it, becomes PEM."""

from __future__ import annotations

import errno
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from connect_runtime.system import file_bytes
from connect_runtime.wire.codec import tls_settings

_JKS_MAGIC = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
"""JKS, and its sister JCEKS."""
BYTES_MAX = 8 << 20
"""Of one file: a hundred times what all authorities of a system take."""


def below(folder: Path) -> tls_settings.Files:
    """Reads files whose paths are relative to `folder`, absolute ones as they are."""
    return tls_settings.Files(
        text=lambda path: _read(_place(folder, path)).decode().replace("\r\n", "\n"),
        store=lambda path, password: _store(_place(folder, path), password),
    )


def _place(folder: Path, path: str) -> Path:
    if "\0" in path:
        raise FileNotFoundError(errno.ENOENT, "a path cannot hold a NUL character")
    return folder / path


def _read(file: Path) -> bytes:
    return file_bytes.read(file, most=BYTES_MAX, regular=True)


def _store(file: Path, password: str) -> tls_settings.Store:
    data = _read(file)
    if data.startswith(_JKS_MAGIC):
        raise tls_settings.JksFormat
    try:
        found = pkcs12.load_pkcs12(data, password.encode() if password else None)
    except ValueError:  # the library's words name no cause that a person could tell apart
        raise ValueError("its password is another one, or it is no PKCS12 store") from None
    chain = [found.cert] if found.cert is not None else []
    chain += found.additional_certs
    key = found.key
    return tls_settings.Store(
        certificates_pem="".join(
            each.certificate.public_bytes(serialization.Encoding.PEM).decode() for each in chain
        ),
        key_pem=""
        if key is None
        else key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ).decode(),
    )
