from __future__ import annotations

import pathlib

import pytest

from connect_runtime.rest import settings as rest_settings
from connect_runtime.system import certificates, clock

MODULE = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"
OPTS = "-Djava.security.auth.login.config=jaas.conf"


@pytest.fixture
def stored(tmp_path: pathlib.Path) -> pathlib.Path:
    """A key store, and two users."""
    wall_ms = clock.SystemClock().wall_ms()
    authority = certificates.Authority.create("test", wall_ms=wall_ms)
    issued = authority.issue("worker", hosts=["127.0.0.1"], wall_ms=wall_ms)
    (tmp_path / "own.pem").write_bytes(issued.certificate_pem + issued.key_pem)
    jaas = f'KafkaConnect {{ {MODULE} required file="users.properties"; }};'
    (tmp_path / "jaas.conf").write_text(jaas)
    (tmp_path / "users.properties").write_text("anna=hush\n")
    return tmp_path


STORE = {"ssl.keystore.type": "PEM", "ssl.keystore.location": "own.pem"}


def test_https_falls_back_on_the_workers_own_settings(in_group, stored):
    found = in_group({"listeners": "https://:0", **STORE, "ssl.client.auth": "requested"})
    assert found.https is not None
    assert found.admin_https is None
    assert found.connections.security.protocol == "PLAINTEXT"
    assert not any(each.startswith("ssl.") for each in found.config.raw)


def test_prefixed_settings_are_for_their_listeners_alone(in_group, refused, stored):
    main = {f"listeners.https.{key}": value for key, value in STORE.items()}
    admin = {f"admin.listeners.https.{key}": value for key, value in STORE.items()}
    given = {"listeners": "https://:0", "admin.listeners": "https://:0", **main}
    assert in_group({**given, **admin}).admin_https is not None
    (told,) = refused(given)
    assert "ssl.keystore: a server needs a certificate and its key" in told


def test_mistakes_in_certificates_have_their_keys(refused, stored):
    lines = refused({
        "listeners": "https://:0",
        "listeners.https.ssl.keystore.type": "PEM",
        "listeners.https.ssl.keystore.location": "gone.pem",
        "listeners.https.ssl.protocol": "TLS",
    })  # fmt: skip
    assert [each.partition(": gone")[0].partition(": it")[0] for each in lines] == [
        "w:10: listeners.https.ssl.keystore.location",
        "w:11: listeners.https.ssl.protocol",
    ]


def test_all_that_is_wrong_with_the_api_is_told(refused):
    lines = refused({
        "listeners": "http://:1,http://:1",
        "admin.listeners": "ftp://:1",
        "rest.advertised.listener": "ftp",
        "access.control.allow.origin": "(",
        "response.http.headers.config": "zet a:b",
        "topic.tracking.enable": "maybe",
    })  # fmt: skip
    assert [each.split(": ")[1] for each in lines] == [
        "listeners",
        "admin.listeners",
        "rest.advertised.listener",
        "access.control.allow.origin",
        "response.http.headers.config",
        "topic.tracking.enable",
    ]


def test_users_of_basic_authentication(in_group, refused, stored):
    extension = {"rest.extension.classes": rest_settings.BASIC_AUTH}
    found = in_group(extension, KAFKA_OPTS=OPTS)
    assert found.users == {"anna": "hush"}
    assert "hush" not in repr(found)
    (told,) = refused(extension)
    assert "w:8: rest.extension.classes: basic authentication needs a JAAS file" in told
    (stored / "users.properties").write_text("")
    listens = {"listeners": "http://127.0.0.1:8083"}
    (warned,) = in_group({**extension, **listens}, KAFKA_OPTS=OPTS).warnings
    assert "everybody is let in" in warned


@pytest.mark.parametrize("protocol", ["compatible", "Eager"])
def test_basic_authentication_needs_a_protocol_that_signs(in_group, refused, stored, protocol):
    extension = {"rest.extension.classes": rest_settings.BASIC_AUTH, "connect.protocol": protocol}
    (told,) = refused(extension, KAFKA_OPTS=OPTS)
    assert "w:9: connect.protocol: does not sign requests between workers" in told
    assert "sessioned" in told
    in_group({"connect.protocol": protocol})
    in_group({**extension, "connect.protocol": "Sessioned"}, KAFKA_OPTS=OPTS)
