from __future__ import annotations

import dataclasses

import pytest

from connect_runtime.protocol.request_errors import RequestFailureLayer
from mm2.preflight import check_report
from mm2.preflight.check_report import CheckArea, CheckSeverity
from mm2.preflight.connectivity_findings import ConnectAttempt, ConnectResult
from mm2.suggested_commands import ClusterCommands

Layer, Weight, Word = RequestFailureLayer, CheckSeverity, CheckArea
TOOL = ClusterCommands(bootstrap="b:1", principal="User:me", secured=True)
FINE = ConnectAttempt(address="b:1")


def reached(
    *bootstrap: ConnectAttempt, brokers: tuple[ConnectAttempt, ...] = (), protocol: str = "SASL_SSL"
) -> ConnectResult:
    return ConnectResult(
        alias="east",
        clients=("consumer of east->west",),
        protocol=protocol,
        user="me",
        bootstrap=bootstrap,
        brokers=brokers,
        tool=TOOL,
    )


def bad(layer: RequestFailureLayer, text: str = "x", *, node: int | None = None) -> ConnectAttempt:
    return ConnectAttempt(address="c:2", layer=layer, text=text, node=node)


def test_what_answers_has_no_findings():
    sound = reached(FINE, brokers=(ConnectAttempt(address="b:1", node=1),))
    assert list(sound.list_findings()) == []
    assert sound.is_reachable
    assert sound.is_complete
    assert sound.summarize_areas().checked == frozenset(check_report.CONNECTIVITY_AREAS)
    assert not sound.summarize_areas().skipped


@pytest.mark.parametrize(
    ("layer", "text", "word", "code", "command"),
    [
        (Layer.DNS, "the host name cannot be resolved", Word.DNS, "dns", "getent ahosts c"),
        (Layer.NETWORK, "Connection refused", Word.NETWORK, "network", "nc -vz c 2"),
        (
            Layer.LISTENER,
            "the listener uses TLS",
            Word.LISTENER,
            "listener",
            "openssl s_client -connect c:2 -servername c </dev/null",
        ),
        (Layer.TLS, "certificate has expired", Word.TLS, "tls-expired", "openssl"),
        (Layer.TLS, "Hostname mismatch, not valid", Word.TLS, "tls-host-name", "openssl"),
        (Layer.TLS, "IP address mismatch, not valid", Word.TLS, "tls-host-name", "openssl"),
        (
            Layer.TLS,
            "unable to get local issuer certificate",
            Word.TLS,
            "tls-untrusted",
            "openssl",
        ),
        (Layer.TLS, "self-signed certificate in chain", Word.TLS, "tls-untrusted", "openssl"),
        (Layer.TLS, "rejected by the broker: alert", Word.TLS, "tls-client", "openssl"),
        (Layer.TLS, "internal error", Word.TLS, "tls", "openssl"),
        (Layer.AUTH, "PLAIN was refused", Word.AUTH, "auth-refused", "--entity-name me"),
        (Layer.AUTH, "the broker does not offer PLAIN", Word.AUTH, "auth-mechanism", "users"),
        (
            Layer.PROTOCOL,
            "metadata: too old",
            Word.PROTOCOL,
            "protocol",
            "kafka-broker-api-versions",
        ),
    ],
)
def test_a_failure_is_told_with_its_word_and_what_shows_more(layer, text, word, code, command):
    (found,) = reached(bad(layer, text)).list_findings()
    assert (found.area, found.code, found.severity) == (word, code, Weight.FAILED)
    assert found.subject == "east"
    assert text in found.text
    assert "c:2 of bootstrap.servers" in found.text
    assert "consumer of east->west" in found.text
    assert command in found.command
    assert "{" not in found.fix


def test_what_all_addresses_answer_alike_is_told_once():
    others = [
        dataclasses.replace(bad(Layer.AUTH, "wrong password"), address=f"c:{port}")
        for port in (2, 3, 4)
    ]
    (found,) = reached(*others).list_findings()
    assert found.text.startswith("c:2, c:3, c:4 of bootstrap.servers: wrong password")


def test_who_comes_in_is_told_only_where_ways_differ():
    alone = dataclasses.replace(reached(bad(Layer.NETWORK, "refused")), clients=())
    (found,) = alone.list_findings()
    assert found.text == "c:2 of bootstrap.servers: refused"


def test_what_is_behind_the_failure_is_skipped():
    looked = reached(bad(Layer.LISTENER)).summarize_areas()
    assert looked.checked == {Word.DNS, Word.NETWORK, Word.LISTENER}
    assert looked.skipped == {Word.TLS, Word.AUTH, Word.PROTOCOL}


def test_tls_and_logins_are_looked_at_only_where_the_protocol_has_them():
    assert reached(FINE, protocol="PLAINTEXT").summarize_areas().checked == {
        Word.DNS,
        Word.NETWORK,
        Word.LISTENER,
        Word.PROTOCOL,
    }
    assert Word.AUTH not in reached(FINE, protocol="SSL").summarize_areas().checked


def test_a_login_without_logins_is_the_listeners_matter():
    (found,) = reached(bad(Layer.AUTH), protocol="PLAINTEXT").list_findings()
    assert found.area is Word.LISTENER


def test_one_bad_address_among_good_ones_is_a_warning():
    some = reached(FINE, bad(Layer.NETWORK))
    (found,) = some.list_findings()
    assert found.severity is Weight.WARNING
    assert "other bootstrap addresses respond" in found.effect
    assert some.is_reachable
    assert some.is_complete
    assert some.summarize_areas().checked == frozenset(check_report.CONNECTIVITY_AREAS)


@pytest.mark.parametrize("layer", [Layer.DNS, Layer.NETWORK])
def test_an_address_that_a_broker_advertises_and_nobody_reaches_is_the_listeners(layer):
    found_out = reached(FINE, brokers=(bad(layer, "refused", node=3),))
    (found,) = found_out.list_findings()
    assert (found.area, found.code, found.severity) == (
        Word.LISTENER,
        "broker-unreachable",
        Weight.FAILED,
    )
    assert "broker 3 advertises c:2" in found.text
    assert "advertised.listeners of broker 3" in found.fix
    assert found_out.is_reachable
    assert not found_out.is_complete


def test_a_broker_with_a_bad_certificate_is_told_as_such():
    (found,) = reached(FINE, brokers=(bad(Layer.TLS, "has expired", node=3),)).list_findings()
    assert (found.area, found.code) == (Word.TLS, "tls-expired")


@pytest.mark.parametrize(
    ("left_days", "soon"), [(31, False), (29, True), (-1, True), (None, False)]
)
def test_a_certificate_that_ends_soon_is_a_warning(left_days, soon):
    at_ms, day_ms = 1_700_000_000_000, 86_400_000
    until_ms = None if left_days is None else at_ms + left_days * day_ms
    dated = dataclasses.replace(FINE, expires_ms=until_ms)
    found = list(dataclasses.replace(reached(dated), at_ms=at_ms).list_findings())
    own = list(
        dataclasses.replace(reached(FINE), at_ms=at_ms, client_expires_ms=until_ms).list_findings()
    )
    assert [each.code for each in found + own] == ["tls-expires-soon"] * 2 * soon
    if soon:
        assert found[0].severity is Weight.WARNING
        assert f"{max(0, left_days)} days" in found[0].text
        assert "b:1" in found[0].command
        assert "client certificate" in own[0].text
