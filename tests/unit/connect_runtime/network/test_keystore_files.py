from __future__ import annotations

import os

import pytest

from connect_runtime.network import keystore_files
from connect_runtime.protocol.tls_settings import JksFormatError, KeyStoreContent
from tests.support import client_certificates

ROOT = client_certificates.root("root")
OWN = client_certificates.leaf("me", client_certificates.between("between", ROOT))


def test_a_store_becomes_pem_with_our_own_certificate_first(tmp_path):
    (tmp_path / "own.p12").write_bytes(OWN.pkcs12())
    files = keystore_files.create_store_files(tmp_path)
    found = files.read_store("own.p12", client_certificates.STORE_PASSWORD)
    assert found == KeyStoreContent(certificates_pem=OWN.chain_pem, key_pem=OWN.key_pem)
    assert files.read_store(str(tmp_path / "own.p12"), client_certificates.STORE_PASSWORD) == found


def test_a_wrong_password_and_another_format_are_told_without_the_password(tmp_path):
    (tmp_path / "own.p12").write_bytes(OWN.pkcs12())
    (tmp_path / "text").write_text("not a store")
    (tmp_path / "old.jks").write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    files = keystore_files.create_store_files(tmp_path)
    for name in ("own.p12", "text"):
        with pytest.raises(ValueError, match="wrong password, or not") as raised:
            files.read_store(name, "s3cret")
        assert "s3cret" not in str(raised.value)
    with pytest.raises(JksFormatError):
        files.read_store("old.jks", "s3cret")


def test_what_cannot_be_opened_is_an_os_error(tmp_path):
    files = keystore_files.create_store_files(tmp_path)
    for name in ("none", "nul\0character"):
        with pytest.raises(FileNotFoundError):
            files.read_store(name, "")
        with pytest.raises(FileNotFoundError):
            files.read_text(name)


def test_what_may_never_end_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    files = keystore_files.create_store_files(tmp_path)
    for name in ("pipe", "/dev/zero", "."):
        for read in (files.read_text, lambda path: files.read_store(path, "")):
            with pytest.raises(OSError, match="not a regular file"):
                read(name)


def test_a_file_that_is_far_too_large_is_not_read_to_its_end(tmp_path):
    with (tmp_path / "large").open("wb") as large:
        large.truncate(1 << 40)
    files = keystore_files.create_store_files(tmp_path)
    with pytest.raises(OSError, match="larger than 8 MiB"):
        files.read_text("large")


def test_lines_end_as_text_does(tmp_path):
    (tmp_path / "dos.pem").write_bytes(b"a\r\nb\r\n")
    assert keystore_files.create_store_files(tmp_path).read_text("dos.pem") == "a\nb\n"
