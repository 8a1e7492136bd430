from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from connect_runtime.api.errors import ConfigError
from connect_runtime.network import keystore_files
from connect_runtime.rest import rest_tls
from connect_runtime.rest.rest_tls import HttpsConfigError, HttpsContexts
from connect_runtime.system.certificates import CertificateAuthority
from connect_runtime.system.system_clock import SystemClock


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("stores")
    wall_ms = SystemClock().wall_ms()
    authority = CertificateAuthority.create("test", wall_ms=wall_ms)
    issued = authority.issue_certificate("worker", hosts=["127.0.0.1"], wall_ms=wall_ms)
    (made / "own.pem").write_bytes(issued.certificate_pem + issued.key_pem)
    return made


OWN = {"ssl.keystore.type": "PEM", "ssl.keystore.location": "own.pem"}


def read(folder: Path, properties: dict[str, str], **options: str) -> HttpsContexts:
    return rest_tls.read_https_contexts(
        properties, files=keystore_files.create_store_files(folder), **options
    )


@pytest.mark.parametrize(
    ("auth", "mode"),
    [
        ({}, ssl.CERT_NONE),
        ({"ssl.client.auth": "requested"}, ssl.CERT_OPTIONAL),
        ({"ssl.client.auth": "Required"}, ssl.CERT_REQUIRED),
    ],
)
def test_the_workers_own_settings_count(
    folder: Path, auth: dict[str, str], mode: ssl.VerifyMode
) -> None:
    made = read(folder, OWN | auth | {"group.id": "g"})
    assert made.server.verify_mode is mode
    assert made.server.minimum_version is ssl.TLSVersion.TLSv1_2
    assert made.client.check_hostname


def test_prefixed_settings_count_alone(folder: Path) -> None:
    own = {f"listeners.https.{key}": value for key, value in OWN.items()}
    worker = {"ssl.client.auth": "required", "ssl.keystore.location": "gone.pem"}
    assert read(folder, own | worker).server.verify_mode is ssl.CERT_NONE
    with pytest.raises(ConfigError, match=r"ssl.keystore.location: gone.pem cannot be read"):
        read(
            folder,
            OWN | worker | {"listeners.https.x": "1"},
            prefix=rest_tls.ADMIN_LISTENERS_PREFIX,
        )


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        ({}, "ssl.keystore: a TLS server needs a certificate and a key"),
        (
            OWN | {"ssl.client.auth": "maybe"},
            "ssl.client.auth: maybe is not supported; allowed are none",
        ),
        (OWN | {"ssl.cipher.suites": "x"}, "ssl.cipher.suites: it is not supported"),
        (
            {f"listeners.https.{key}": value for key, value in OWN.items()}
            | {"listeners.https.ssl.keystore.location": "gone.pem"},
            "listeners.https.ssl.keystore.location: gone.pem cannot be read",
        ),
    ],
)
def test_what_is_wrong_is_told(folder: Path, properties: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        read(folder, properties)


def test_every_mistake_has_its_key(folder: Path) -> None:
    given = {"listeners.https.ssl.protocol": "TLS", "listeners.https.ssl.cipher.suites": "x"}
    with pytest.raises(HttpsConfigError) as raised:
        read(folder, given)
    assert {key for key, _ in raised.value.problems} == set(given)
