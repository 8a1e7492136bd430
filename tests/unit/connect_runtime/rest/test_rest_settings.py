from __future__ import annotations

import pytest

from connect_runtime.api.errors import ConfigError
from connect_runtime.rest import rest_settings
from connect_runtime.rest.rest_settings import (
    AdvertisedAddress,
    CorsSettings,
    RestListener,
    RestSettings,
)

L = RestListener


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://:8083", L(scheme="http", host="", port=8083)),
        ("HTTPS://connect-1:8443", L(scheme="https", host="connect-1", port=8443)),
        (" http://127.0.0.1:0 ", L(scheme="http", host="127.0.0.1", port=0)),
        ("http://[::1]:8083", L(scheme="http", host="::1", port=8083)),
    ],
)
def test_a_listener_is_read(text: str, expected: RestListener) -> None:
    assert rest_settings.parse_listener(text) == expected
    assert rest_settings.parse_listener(str(expected)) == expected


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("localhost:8083", "does not have the form protocol://host:port"),
        ("http://localhost", "does not have the form"),
        ("http://a b:1", "does not have the form"),
        ("ftp://localhost:21", "the protocol 'ftp'; allowed are http and https"),
        ("http://localhost:65536", "the port 65536; allowed are 0"),
        ("http://localhost:-1", "the port -1"),
    ],
)
def test_what_is_no_listener_is_refused(text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        rest_settings.parse_listener(text)


def test_two_listeners_at_one_address_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"admin.listeners: two of"):
        rest_settings.parse_listeners(["http://a:1", "https://a:1"], key="admin.listeners")
    assert len(rest_settings.parse_listeners(["http://a:0", "https://a:0", "http://b:1"])) == 3


def test_administrators_listen_elsewhere() -> None:
    both = {"listeners": "http://a:1", "admin.listeners": "http://a:1"}
    with pytest.raises(ConfigError, match=r"^admin.listeners: http://a:1 is also in"):
        rest_settings.read_rest_settings(both)
    with pytest.raises(ConfigError, match=r"^admin.listeners: 'a:1' does not have"):
        rest_settings.read_rest_settings({"admin.listeners": "a:1"})
    free = {"listeners": "http://a:0", "admin.listeners": "http://a:0"}
    assert rest_settings.read_rest_settings(free).admin_listeners == rest_settings.parse_listeners(
        ["http://a:0"]
    )


def test_without_properties_the_defaults_hold() -> None:
    assert rest_settings.read_rest_settings({}) == RestSettings()
    assert [str(each) for each in rest_settings.read_rest_settings({}).listeners] == [
        "http://127.0.0.1:8083"
    ]


def test_a_workers_properties_are_read() -> None:
    read = rest_settings.read_rest_settings(
        {
            "listeners": "http://:8083, HTTPS://a:8443",
            "admin.listeners": "https://:1",
            "rest.advertised.host.name": "worker-1",
            "rest.advertised.port": "99",
            "rest.advertised.listener": "HTTPS",
            "access.control.allow.origin": "*",
            "access.control.allow.methods": "GET",
            "response.http.headers.config": "set X-A:b",
            "topic.tracking.enable": "False",
            "topic.tracking.allow.reset": "false",
            "rest.extension.classes": rest_settings.BASIC_AUTH_EXTENSION,
            "group.id": "not ours",
        }
    )
    assert read == RestSettings(
        listeners=(
            L(scheme="http", host="", port=8083),
            L(scheme="https", host="a", port=8443),
        ),
        admin_listeners=(L(scheme="https", host="", port=1),),
        advertised=AdvertisedAddress(host="worker-1", port=99, scheme="https"),
        access=CorsSettings(origins="*", methods="GET"),
        response_headers="set X-A:b",
        topic_tracking=False,
        topic_reset=False,
        basic_auth=True,
    )
    assert (read.needs_https(), read.needs_admin_https()) == (True, True)


def test_admin_listeners_may_be_switched_off() -> None:
    for blank in ("", " "):
        assert rest_settings.read_rest_settings({"admin.listeners": blank}).admin_listeners == ()
    assert rest_settings.read_rest_settings({}).admin_listeners is None


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        ({"listeners": ""}, "^listeners: the list is empty"),
        ({"listeners": ",,,"}, "^listeners: .* contains an empty entry"),
        ({"listeners": "http://a.b:9999,"}, "^listeners: .* contains an empty entry"),
        ({"listeners": "http://a.b:1, ,https://a.b:2"}, "^listeners: .* contains an empty entry"),
        ({"admin.listeners": "http://a.b:9999,"}, "^admin.listeners: .* contains an empty entry"),
        (
            {"admin.listeners": "http://a.b:1, ,https://a.b:2"},
            "^admin.listeners: .* an empty entry",
        ),
        ({"rest.advertised.listener": "ftp"}, "rest.advertised.listener: 'ftp' is not allowed"),
        ({"rest.advertised.port": "0"}, "rest.advertised.port: '0' is not a port"),
        ({"rest.advertised.port": "x"}, "rest.advertised.port: 'x' is not a port"),
        ({"topic.tracking.enable": "yes"}, "topic.tracking.enable: 'yes' is not allowed"),
        (
            {"rest.extension.classes": "com.acme.Ext"},
            "'com.acme.Ext' is not supported, because Java classes",
        ),
    ],
)
def test_wrong_properties_are_refused(properties: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        rest_settings.read_rest_settings(properties)
