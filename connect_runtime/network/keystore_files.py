"""Reads key stores and PEM files from disk, and converts PKCS12 stores to PEM."""

from __future__ import annotations

import errno
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from connect_runtime.protocol.tls_settings import (
    JksFormatError,
    KeyStoreContent,
    KeyStoreFileReader,
)
from connect_runtime.system import secure_file_access

_JKS_MAGIC = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
"""First bytes of JKS and JCEKS stores."""
MAX_STORE_FILE_BYTES = 8 << 20
"""Maximum size of a key store file. Even the certificate bundle of an operating system is much
smaller."""


def create_store_files(folder: Path) -> KeyStoreFileReader:
    """Return functions that read key stores and PEM files. Relative paths are resolved against the
    directory `folder`."""
    return KeyStoreFileReader(
        read_text=lambda path: (
            _read_file(_resolve_path(folder, path)).decode().replace("\r\n", "\n")
        ),
        read_store=lambda path, password: _read_pkcs12_store(_resolve_path(folder, path), password),
    )


def _resolve_path(folder: Path, path: str) -> Path:
    if "\0" in path:
        raise FileNotFoundError(errno.ENOENT, "a path cannot contain a NUL character")
    return folder / path


def _read_file(file: Path) -> bytes:
    return secure_file_access.read_file_with_limit(
        file, max_bytes=MAX_STORE_FILE_BYTES, regular_only=True
    )


def _read_pkcs12_store(file: Path, password: str) -> KeyStoreContent:
    data = _read_file(file)
    if data.startswith(_JKS_MAGIC):
        raise JksFormatError
    try:
        found = pkcs12.load_pkcs12(data, password.encode() if password else None)
    except ValueError:  # the library's message does not help a user to find the cause
        raise ValueError("wrong password, or not a PKCS12 store") from None
    chain = [found.cert] if found.cert is not None else []
    chain += found.additional_certs
    key = found.key
    return KeyStoreContent(
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
