from __future__ import annotations

import pytest

from connect_runtime.api import errors
from connect_runtime.rest import settings

L = settings.Listener


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://:8083", L(scheme="http", host="", port=8083)),
        ("HTTPS://connect-1:8443", L(scheme="https", host="connect-1", port=8443)),
        (" http://127.0.0.1:0 ", L(scheme="http", host="127.0.0.1", port=0)),
        ("http://[::1]:8083", L(scheme="http", host="::1", port=8083)),
    ],
)
def test_a_listener_is_read(text: str, expected: settings.Listener) -> None:
    assert settings.listener(text) == expected
    assert settings.listener(str(expected)) == expected


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
    with pytest.raises(errors.ConfigError, match=told):
        settings.listener(text)


def test_two_listeners_at_one_address_are_refused() -> None:
    with pytest.raises(errors.ConfigError, match=r"admin.listeners: two of"):
        settings.listeners(["http://a:1", "https://a:1"], key="admin.listeners")
    assert len(settings.listeners(["http://a:0", "https://a:0", "http://b:1"])) == 3
