"""Who starts a worker that the network reaches without a login hears of it."""

from __future__ import annotations

import pytest

from connect_runtime.rest import settings as rest_settings

LOOPBACK = "http://127.0.0.1:8083"
BASIC = {"rest.extension.classes": rest_settings.BASIC_AUTH}
MODULE = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"


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
    assert "passwords of the REST API's users go over the network unencrypted" in warned


def test_without_listeners_it_is_this_machine_and_a_group_hears_of_it(in_group, alone):
    (warned,) = in_group().warnings
    assert "listeners: is not set: the REST API listens on http://127.0.0.1:8083," in warned
    assert alone().warnings == ()
    assert [str(each) for each in alone().rest.listeners] == ["http://127.0.0.1:8083"]


def test_workers_without_a_server_of_their_own_say_nothing(derived):
    assert derived({"listeners": "http://:8083"}).warnings == ()
    assert derived({}).warnings == ()
