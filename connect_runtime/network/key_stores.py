"""Reads key stores and PEM files from disk; PKCS12 stores of keytool and openssl become PEM."""

from __future__ import annotations

import errno
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from connect_runtime.protocol.tls_settings import JksFormatError, KeyStoreContent, StoreFiles
from connect_runtime.system import files

_JKS_MAGIC = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
"""JKS, and its sister JCEKS."""
MAX_STORE_FILE_BYTES = 8 << 20
"""Of one file: a hundred times what all authorities of a system take."""


def create_store_files(folder: Path) -> StoreFiles:
    """Reads files whose paths are relative to `folder`, absolute ones as they are."""
    return StoreFiles(
        text=lambda path: _read_file(_resolve_path(folder, path)).decode().replace("\r\n", "\n"),
        store=lambda path, password: _read_pkcs12_store(_resolve_path(folder, path), password),
    )


def _resolve_path(folder: Path, path: str) -> Path:
    if "\0" in path:
        raise FileNotFoundError(errno.ENOENT, "a path cannot hold a NUL character")
    return folder / path


def _read_file(file: Path) -> bytes:
    return files.read_bounded(file, most=MAX_STORE_FILE_BYTES, regular=True)


def _read_pkcs12_store(file: Path, password: str) -> KeyStoreContent:
    data = _read_file(file)
    if data.startswith(_JKS_MAGIC):
        raise JksFormatError
    try:
        found = pkcs12.load_pkcs12(data, password.encode() if password else None)
    except ValueError:  # the library's words name no cause that a person could tell apart
        raise ValueError("its password is another one, or it is no PKCS12 store") from None
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
