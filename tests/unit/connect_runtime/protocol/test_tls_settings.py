"""PKCS12 and JKS stores; PEM is in test_security_settings.py."""

from __future__ import annotations

import pytest

from connect_runtime.protocol import tls_settings
from connect_runtime.protocol.client_property_reader import PropertyReader
from connect_runtime.protocol.tls_settings import (
    JksFormatError,
    KeyStoreContent,
    KeyStoreFileReader,
    TlsSettings,
)

CERTIFICATE = "-----BEGIN CERTIFICATE-----\nC\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN PRIVATE KEY-----\nK\n-----END PRIVATE KEY-----\n"
STORES = {
    "trust.p12": KeyStoreContent(certificates_pem=CERTIFICATE),
    "own.p12": KeyStoreContent(certificates_pem=CERTIFICATE, key_pem=KEY),
    "empty.p12": KeyStoreContent(),
}


def read_store(path: str, password: str) -> KeyStoreContent:
    if path.endswith(".jks"):
        raise JksFormatError
    if path not in STORES:
        raise FileNotFoundError(2, "No such file or directory", path)
    if password != "storepw":
        raise ValueError("wrong password, or not")
    return STORES[path]


def no_text(path: str) -> str:
    raise AssertionError(path)


FILES = KeyStoreFileReader(read_text=no_text, read_store=read_store)


def read(**properties: str) -> tuple[TlsSettings, dict[str, str]]:
    spelled = {f"ssl.{key}".replace("__", "."): value for key, value in properties.items()}
    account = PropertyReader(spelled)
    found = tls_settings.read_tls_settings(account, FILES, uses_tls=True)
    assert len({error.key for error in account.errors}) == len(account.errors)
    return found, {error.key: str(error) for error in account.errors}


@pytest.mark.parametrize("kind", [{"truststore__type": "PKCS12"}, {"truststore__type": "jks"}, {}])
def test_a_truststore_is_read_as_java_reads_it_whatever_it_is_called(kind):
    found, errors = read(truststore__location="trust.p12", truststore__password="storepw", **kind)
    assert not errors
    assert found.ca_pem == CERTIFICATE
    assert (found.certificate_pem, found.key_pem) == (None, None)


@pytest.mark.parametrize("key_password", [{}, {"key__password": "storepw"}])
def test_a_keystore_brings_certificate_and_key_without_a_password(key_password):
    found, errors = read(
        keystore__type="PKCS12",
        keystore__location="own.p12",
        keystore__password="storepw",
        **key_password,
    )
    assert not errors
    assert (found.certificate_pem, found.key_pem) == (CERTIFICATE, KEY)
    assert found.key_password is None
    assert "PRIVATE" not in repr(found) + repr(STORES["own.p12"])


@pytest.mark.parametrize(
    ("properties", "key", "text"),
    [
        (
            {"truststore__location": "old.jks"},
            "ssl.truststore.location",
            "old.jks is a JKS store, which is not supported; convert the store: "
            "keytool -importkeystore",
        ),
        (
            {"keystore__location": "old.jks"},
            "ssl.keystore.location",
            "openssl pkcs12 -in store.p12 -nodes -out store.pem",
        ),
        (
            {"truststore__location": "trust.p12", "truststore__password": "guess"},
            "ssl.truststore.location",
            "cannot be opened: wrong password, or not; check ssl.truststore.password",
        ),
        (
            {"keystore__location": "none.p12"},
            "ssl.keystore.location",
            "none.p12 cannot be read: No such file or directory",
        ),
        (
            {"keystore__location": "trust.p12", "keystore__password": "storepw"},
            "ssl.keystore.location",
            "the store contains no private key with its certificate",
        ),
        (
            {"truststore__location": "empty.p12", "truststore__password": "storepw"},
            "ssl.truststore.location",
            "it contains no certificate",
        ),
        (
            {
                "keystore__location": "own.p12",
                "keystore__password": "storepw",
                "key__password": "other",
            },
            "ssl.key.password",
            "it differs from ssl.keystore.password; remove it, because a PKCS12 store has one "
            "password for the store and its key",
        ),
        (
            {"truststore__type": "BKS", "truststore__location": "trust.p12"}
            | {"truststore__password": "storepw"},
            "ssl.truststore.type",
            "BKS is unknown; one of PEM, PKCS12, JKS",
        ),
        (
            {"truststore__type": "PEM", "truststore__certificates": CERTIFICATE}
            | {"keystore__type": "PKCS12"},
            "ssl.keystore.location",
            "it is missing; name a key store",
        ),
    ],
)
def test_what_cannot_be_read_says_what_to_do(properties, key, text):
    _, errors = read(**properties)
    assert set(errors) == {key}
    assert text in errors[key]
    assert "guess" not in errors[key]


def test_a_pem_store_has_no_password():
    _, errors = read(
        truststore__type="PEM", truststore__certificates=CERTIFICATE, truststore__password="x"
    )
    assert not errors  # inline: Java looks at no store
    account = PropertyReader(
        {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": "ca.pem",
            "ssl.truststore.password": "x",
        }
    )
    files = KeyStoreFileReader(read_text=lambda path: CERTIFICATE, read_store=read_store)
    tls_settings.read_tls_settings(account, files, uses_tls=True)
    (error,) = account.errors
    assert "PEM stores have no password" in str(error)


def test_without_tls_no_file_is_read():
    account = PropertyReader({"ssl.truststore.location": "none.p12"})
    found = tls_settings.read_tls_settings(account, FILES, uses_tls=False)
    assert (found.ca_pem, account.errors) == (None, [])
