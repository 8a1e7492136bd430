"""What a page from elsewhere may not have a browser do here."""

from __future__ import annotations

import pytest

from connect_runtime.base import host_and_origin_rules

HOSTS = host_and_origin_rules.parse_allowed_hosts(["connect.example.org", "*.mm2.svc", "Named."])


@pytest.mark.parametrize(
    "host",
    [
        None,
        "10.1.2.3:8083",
        "[fd00::1]:8083",
        "[::1]",
        "localhost",
        "LOCALHOST.:8083",
        "a.localhost:80",
        "connect",
        "named",
        "connect.example.org:8083",
        "a.mm2.svc",
    ],
)
def test_own_names_and_addresses_are_allowed(host):
    assert HOSTS.allows_reading(host)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "connect.example.org.evil.example",
        "xmm2.svc",
        "mm2.svc",
        "127.0.0.1.evil.example",
        "evil.example:8083",
        "a@b.c",
        "localhost@evil.example",
        "localhost/evil.example",
        "",
        "1.2.3.4.5",
    ],
)
def test_other_names_are_not(host):
    assert not HOSTS.allows_reading(host)


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("10.1.2.3:8083", True),
        ("localhost", True),
        ("named:80", True),
        ("a.mm2.svc", True),
        ("connect", False),
        ("evil.example", False),
        ("", False),
        (None, True),
    ],
)
def test_changes_need_a_name_that_is_known(host, allowed):
    assert HOSTS.allows_changes(host) is allowed


def test_a_star_is_every_name():
    assert host_and_origin_rules.parse_allowed_hosts(["*"]).allows_reading("any.example")


@pytest.mark.parametrize(
    ("origin", "site", "foreign"),
    [
        (None, None, False),
        (None, "same-origin", False),
        (None, "cross-site", True),
        ("http://a.example:8083", None, False),
        ("https://a.example:8083", "same-origin", False),
        ("http://a.example", None, True),
        ("http://a.example:3000", "same-site", True),
        ("http://evil.example:8083", None, True),
        ("null", None, True),
        ("http://[", None, True),
    ],
)
def test_who_sends_a_request_for_a_page_of_another_origin(origin, site, foreign):
    found = host_and_origin_rules.is_cross_origin(
        host="a.example:8083", origin=origin, fetch_site=site
    )
    assert found is foreign


def test_a_port_that_is_usual_need_not_be_named():
    assert not host_and_origin_rules.is_cross_origin(
        host="a.example", origin="https://a.example:443", fetch_site=None
    )


def test_what_is_refused_is_told_in_plain_characters():
    assert "\x1b" not in host_and_origin_rules.explain_refused_host("\x1b]52;evil.example")
    assert (
        host_and_origin_rules.ALLOWED_HOST_NAMES_KEY
        in host_and_origin_rules.explain_refused_host("evil.example")
    )
