from __future__ import annotations

import math

import pytest

from connect_runtime.network import connection_settings
from connect_runtime.network.connection_settings import ConnectionSettings
from connect_runtime.protocol.security_settings import SecuritySettings

SAFETY = SecuritySettings(protocol="SSL")


def settings(**properties):
    return connection_settings.create_connection_settings(
        {key.replace("_", "."): value for key, value in properties.items()},
        bootstrap=("127.0.0.1:1", "127.0.0.1:2"),
        security=SAFETY,
        client_id="me",
    )


def test_what_is_not_said_is_as_ever():
    assert settings(group_id="g", linger_ms="soon") == ConnectionSettings(
        bootstrap=("127.0.0.1:1", "127.0.0.1:2"), security=SAFETY, client_id="me"
    )


def test_what_is_said_goes_by_javas_names():
    told = settings(
        request_timeout_ms="1500",
        socket_connection_setup_timeout_ms="2000",
        metadata_max_age_ms="7000",
        retry_backoff_ms="0",
        metadata_recovery_strategy="NONE",
        client_dns_lookup="Resolve_Canonical_Bootstrap_Servers_Only",
    )
    assert (told.request_timeout_s, told.connect_timeout_s) == (1.5, 2.0)
    assert (told.metadata_max_age_s, told.retry_backoff_s) == (7.0, 0.001)
    assert told.canonical_bootstrap
    assert not told.rebootstrap


@pytest.mark.parametrize(("given", "wanted_s"), [("-1", math.inf), ("0", 0.001), ("9000", 9.0)])
def test_idle_connections_may_stay_for_ever(given, wanted_s):
    assert settings(connections_max_idle_ms=given).connections_max_idle_s == wanted_s


def test_a_first_wait_is_no_longer_than_the_longest():
    assert settings(retry_backoff_ms="5000").retry_backoff_max_s == 5.0
    assert settings(reconnect_backoff_max_ms="20").reconnect_backoff_s == 0.02


@pytest.mark.parametrize(
    ("receive", "send", "wanted"),
    [("-1", "-1", None), ("65536", "-1", 65536), ("65536", "131072", 131072)],
)
def test_one_size_serves_both_buffers_the_larger(receive, send, wanted):
    found = settings(receive_buffer_bytes=receive, send_buffer_bytes=send)
    assert found.socket_buffer_bytes == wanted
