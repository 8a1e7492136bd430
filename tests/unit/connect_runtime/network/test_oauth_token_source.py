"""Tokens by HTTP, from an issuer on this machine, in real time."""

from __future__ import annotations

import dataclasses
import logging
import random

import pytest

from connect_runtime.base.errors import ConnectError
from connect_runtime.network.dns_resolver import HostResolver
from connect_runtime.network.oauth_token_source import OAuthTokenSource
from connect_runtime.network.tcp_and_tls_transport import Poller
from connect_runtime.network.tls_contexts import UnusableCertificate
from connect_runtime.protocol.oauthbearer import OAuthSettings
from connect_runtime.protocol.request_errors import AuthenticationFailed, ConnectionFailed
from connect_runtime.system.certificates import CertificateAuthority
from connect_runtime.system.system_clock import SystemClock
from mm2.sandbox import port_reservation
from tests.support import issuer
from tests.support.issuer import Issuer

CLOCK = SystemClock()


class Loop:
    """A source and the loop that moves it."""

    def __init__(self, oauth: OAuthSettings) -> None:
        self.poller = Poller()
        self.names = HostResolver(poller=self.poller)
        self.source = OAuthTokenSource(
            oauth, poller=self.poller, names=self.names, clock=CLOCK, rng=random.Random(3)
        )

    def __enter__(self) -> Loop:
        return self

    def __exit__(self, *_: object) -> None:
        self.source.close()
        self.names.close()
        self.poller.close()

    def wanted(self, deadline_s: float = 10.0) -> str | ConnectError:
        """Turn until it is known whether there is a token."""
        end_s = CLOCK.now_s() + deadline_s
        while (found := self.source.get_or_request_token()) is None:
            assert CLOCK.now_s() < end_s, "nothing came"
            self.turn()
        return found

    def turn(self) -> None:
        due_s = self.source.tick(CLOCK.now_s())
        self.poller.poll(min(0.05, max(0.0, due_s - CLOCK.now_s())))


def oauth_of(found: Issuer, **changed: object) -> OAuthSettings:
    plain = OAuthSettings(
        endpoint=f"{found.address}/token",
        client_id=issuer.CLIENT,
        client_secret=issuer.SECRET,
        connect_timeout_s=2.0,
        read_timeout_s=2.0,
    )
    return dataclasses.replace(plain, **changed)  # type: ignore[arg-type]


def test_a_token_is_fetched_when_it_is_wanted_and_kept():
    with issuer.running() as found, Loop(oauth_of(found)) as loop:
        loop.turn()
        assert (loop.source.get_current_token(), found.asked) == (None, 0)
        token = loop.wanted()
        assert token == loop.source.get_current_token() == loop.wanted() == found.tokens[0]
        assert found.asked == 1


def test_a_token_is_refreshed_by_time_alone():
    with issuer.running() as found:
        found.life_s = 2.0
        with Loop(oauth_of(found, refresh_factor=0.5)) as loop:
            first = loop.wanted()
            end_s = CLOCK.now_s() + 5.0
            while loop.source.get_current_token() in {first, None}:
                assert CLOCK.now_s() < end_s
                loop.turn()
            assert found.asked == 2


def test_trouble_is_told_once_and_its_end_too(caplog):
    caplog.set_level(logging.INFO)
    with issuer.running() as found, Loop(oauth_of(found)) as loop:
        found.status = 503
        said = loop.wanted()
        assert isinstance(said, ConnectionFailed)
        assert loop.source.last_failure is said
        while isinstance(loop.wanted(), ConnectError):
            found.status = 200 if found.asked >= 3 else 503
            loop.turn()
        assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
        assert issuer.SECRET not in caplog.text


def test_over_tls_the_issuers_authority_counts():
    authority = CertificateAuthority.create("ids", wall_ms=CLOCK.wall_ms())
    with issuer.running(tls=authority) as found:
        ca_pem = authority.certificate_pem.decode()
        with Loop(oauth_of(found, ca_pem=ca_pem)) as loop:
            assert isinstance(loop.wanted(), str)
        with Loop(oauth_of(found)) as loop:
            said = loop.wanted()
            assert isinstance(said, AuthenticationFailed)
            assert "the token endpoint's certificate was rejected" in str(said)
    with pytest.raises(UnusableCertificate):
        Loop(oauth_of(found, ca_pem="-----BEGIN CERTIFICATE-----\nx"))


def test_an_issuer_that_is_away_or_silent_is_trouble_in_time():
    reserved = port_reservation.reserve_port()
    nobody = Issuer(port=reserved.port)
    with Loop(oauth_of(nobody)) as loop:
        said = loop.wanted()
        assert isinstance(said, ConnectionFailed)
        assert "Connection refused" in str(said)
    reserved.release()
    with issuer.running() as found:
        found.silent_s = 1.5
        with Loop(oauth_of(found, read_timeout_s=0.2)) as loop:
            said = loop.wanted(1.4)
            assert isinstance(said, ConnectionFailed)
            assert "no response in time" in str(said)


def test_who_closes_waits_for_nothing():
    with issuer.running() as found, Loop(oauth_of(found)) as loop:
        assert loop.source.get_or_request_token() is None
        loop.turn()
        assert loop.source.is_token_request_in_flight
        loop.source.close()
        assert loop.poller.poll(0.0) == 0
