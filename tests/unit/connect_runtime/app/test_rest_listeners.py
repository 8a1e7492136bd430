"""Who starts a worker that the network reaches without a login hears of it."""

from __future__ import annotations

import pathlib

import pytest

from connect_runtime.api.errors import ConfigError
from connect_runtime.app import rest_listeners
from connect_runtime.rest import rest_settings
from connect_runtime.system.certificates import CertificateAuthority
from connect_runtime.system.system_clock import SystemClock

MODULE = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"
OPTS = "-Djava.security.auth.login.config=jaas.conf"


@pytest.fixture
def stored(tmp_path: pathlib.Path) -> pathlib.Path:
    """A key store, and two users."""
    wall_ms = SystemClock().wall_ms()
    authority = CertificateAuthority.create("test", wall_ms=wall_ms)
    issued = authority.issue_certificate("worker", hosts=["127.0.0.1"], wall_ms=wall_ms)
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
    assert "ssl.keystore: a TLS server needs a certificate and a key" in told


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
    extension = {"rest.extension.classes": rest_settings.BASIC_AUTH_EXTENSION}
    found = in_group(extension, KAFKA_OPTS=OPTS)
    assert found.users == {"anna": "hush"}
    assert "hush" not in repr(found)
    (told,) = refused(extension)
    assert "w:8: rest.extension.classes: basic authentication needs a JAAS file" in told
    (stored / "users.properties").write_text("")
    listens = {"listeners": "http://127.0.0.1:8083"}
    (warned,) = in_group({**extension, **listens}, KAFKA_OPTS=OPTS).warnings
    assert "accepts requests without authentication" in warned


@pytest.mark.parametrize("protocol", ["compatible", "Eager"])
def test_basic_authentication_needs_a_protocol_that_signs(in_group, refused, stored, protocol):
    extension = {
        "rest.extension.classes": rest_settings.BASIC_AUTH_EXTENSION,
        "connect.protocol": protocol,
    }
    (told,) = refused(extension, KAFKA_OPTS=OPTS)
    assert "w:9: connect.protocol: does not sign requests between workers" in told
    assert "sessioned" in told
    in_group({"connect.protocol": protocol})
    in_group({**extension, "connect.protocol": "Sessioned"}, KAFKA_OPTS=OPTS)


def options(file: str) -> dict[str, str]:
    return {"KAFKA_OPTS": f"-Xmx1G -Djava.security.auth.login.config={file} -Da=b"}


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "users.properties").write_bytes(b"anna=h\\u00fcsh\nbob=\n")
    jaas = f'KafkaConnect {{ {MODULE} required file="users.properties"; }};'
    (tmp_path / "jaas.conf").write_text(jaas)
    return tmp_path


def test_users_come_from_the_file_that_kafka_opts_leads_to(folder):
    expected = {"anna": "hüsh", "bob": ""}
    assert rest_listeners.read_rest_users(options("jaas.conf"), folder) == expected
    assert rest_listeners.read_rest_users(options(f"={folder}/jaas.conf"), folder) == expected


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({}, "needs a JAAS file: set the environment variable KAFKA_OPTS"),
        ({"KAFKA_OPTS": "-Da='b"}, "unclosed quote"),
        (options("gone.conf"), "cannot read .*gone.conf: No such file"),
        (options("users.properties"), "no entry KafkaConnect"),
    ],
)
def test_what_is_missing_on_the_way_is_named(folder, environment, told):
    with pytest.raises(ConfigError, match=told):
        rest_listeners.read_rest_users(environment, folder)


def test_a_broken_file_of_users_is_refused_without_its_content(folder):
    (folder / "users.properties").write_text("anna=hush\\u12\n")
    with pytest.raises(ConfigError, match="line 1") as raised:
        rest_listeners.read_rest_users(options("jaas.conf"), folder)
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize("name", ["jaas.conf", "users.properties"])
def test_a_file_that_others_can_write_admits_nobody(folder, name):
    (folder / name).chmod(0o646)
    told = f"{name} decides who may use the REST API, but other users can write to this file; to"
    with pytest.raises(ConfigError, match=told):
        rest_listeners.read_rest_users(options("jaas.conf"), folder)


LOOPBACK = "http://127.0.0.1:8083"
BASIC = {"rest.extension.classes": rest_settings.BASIC_AUTH_EXTENSION}


@pytest.fixture
def login(tmp_path):
    users, jaas = tmp_path / "users.properties", tmp_path / "jaas.conf"
    users.write_text("anna=hush\n")
    jaas.write_text(f'KafkaConnect {{ {MODULE} required file="{users}"; }};')
    return {"KAFKA_OPTS": f"-Djava.security.auth.login.config={jaas}"}


@pytest.mark.parametrize(
    ("listener", "told"),
    [
        ("http://:8083", "http://0.0.0.0:8083 (every interface)"),
        ("http://0.0.0.0:8083", "http://0.0.0.0:8083"),
        ("http://[::]:8083", "http://[::]:8083"),
        ("http://connect-1:8083", "http://connect-1:8083"),
    ],
)
@pytest.mark.parametrize("key", ["listeners", "admin.listeners"])
def test_an_open_listener_is_warned_of_once(in_group, alone, key, listener, told):
    given = {"listeners": LOOPBACK, "admin.listeners": "", key: listener}
    for read in (in_group, alone):
        (warned,) = read(given).warnings
        assert f"{key}: OPEN TO THE NETWORK WITHOUT AUTHENTICATION at {told}" in warned
        assert "rest.extension.classes=BasicAuthSecurityRestExtension" in warned


@pytest.mark.parametrize("listener", [LOOPBACK, "http://localhost:1", "http://[::1]:1"])
def test_a_listener_of_this_machine_is_not(in_group, alone, listener):
    assert in_group({"listeners": listener}).warnings == ()
    assert alone({"listeners": listener}).warnings == ()


def test_with_users_only_plain_http_is(in_group, login):
    given = {"listeners": "http://:8083", **BASIC}
    (warned,) = in_group(given, **login).warnings
    assert "passwords of the REST API's users are sent unencrypted over the network" in warned


def test_without_listeners_it_is_this_machine_and_a_group_hears_of_it(in_group, alone):
    (warned,) = in_group().warnings
    assert "listeners: is not set: the REST API listens on http://127.0.0.1:8083," in warned
    assert alone().warnings == ()
    assert [str(each) for each in alone().rest.listeners] == ["http://127.0.0.1:8083"]


def test_workers_without_a_server_of_their_own_say_nothing(derived):
    assert derived({"listeners": "http://:8083"}).warnings == ()
    assert derived({}).warnings == ()
