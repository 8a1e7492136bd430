"""Keeps a token of an OIDC issuer at hand: HTTP in the same loop as everything else.

Nothing waits for an answer. One request at a time, on a connection of its
own; `token_keeper` decides when.
"""

from __future__ import annotations

import logging
import math
import random

from connect_runtime.base import clock, errors
from connect_runtime.wire.codec import (
    cluster_view,
    failures,
    oauth_settings,
    security_settings,
    token_keeper,
    token_request,
)
from connect_runtime.wire.connection import dialling, http_request, poller, resolver, security

log = logging.getLogger(__name__)


class TokenSource:
    """Made for one cluster's connections. Raises UnusableCertificate (of the endpoint's store)."""

    def __init__(
        self,
        oauth: oauth_settings.OAuth,
        *,
        poller: poller.Poller,
        names: resolver.Resolver,
        clock: clock.Clock,
        rng: random.Random,
    ) -> None:
        self._oauth = oauth
        self._poller = poller
        self._names = names
        self._clock = clock
        self._keeper = token_keeper.TokenKeeper(oauth, rng)
        self._host, self._port, tls = token_request.place(oauth.endpoint)
        trust = security_settings.Security(protocol="SSL", ca_pem=oauth.ca_pem)
        self._tls = security.tls_context(trust) if tls else None
        self._request: http_request.HttpRequest | None = None
        self._answer = token_request.Answer(oauth)
        self._complained = False

    # for those who connect

    def current(self) -> str | None:
        """The token to show now; None if there is none, or it is about to expire."""
        return self._keeper.current(self._clock.now_s())

    def want(self) -> str | errors.ConnectError | None:
        """The token, or why there is none; None: it is being asked for."""
        return self._keeper.want(self._clock.now_s())

    def outlives(self, ends_s: float) -> bool:
        """Does the token last longer than a session that ends then? If not, another is fetched.

        The same token would only get the same end, and brokers refuse renewals within a second.
        """
        return self._keeper.outlives(ends_s, self._clock.now_s())

    @property
    def trouble(self) -> errors.ConnectError:
        """Why `current` had nothing to show."""
        address = cluster_view.format_address(self._host, self._port)
        return self._keeper.trouble or failures.ConnectionFailed(address, "no token has come yet")

    @property
    def is_asking(self) -> bool:
        """Whoever wants a token need not come back before this has changed."""
        return self._keeper.under_way

    def refused(self, text: str, failure: errors.ConnectError) -> None:
        """A broker did not take this token."""
        self._keeper.refused(text, failure, self._clock.now_s())

    def accepted(self) -> None:
        """A broker took the token."""
        self._keeper.accepted()

    # time

    def tick(self, now_s: float) -> float:
        """Do what is due; returns when to come back at the latest (monotonic seconds)."""
        if self._request is not None:
            self._request.tick(now_s)
        if now_s >= self._keeper.due_s():
            self._ask(now_s)
        request_s = math.inf if self._request is None else self._request.due_s
        return min(request_s, self._keeper.due_s())

    def close(self) -> None:
        if self._request is not None:
            self._request.close()
            self._request = None

    def _ask(self, now_s: float) -> None:
        self._keeper.asked()
        self._answer = token_request.Answer(self._oauth)
        self._request = http_request.HttpRequest(
            dialling.Dialling(
                self._host, self._port, names=self._names, tls=self._tls, buffer_bytes=None
            ),
            request=token_request.encode(self._oauth),
            limits=http_request.Limits(
                connect_s=self._oauth.connect_timeout_s,
                read_s=self._oauth.read_timeout_s,
                answer_bytes=token_request.ANSWER_BYTES_MAX,
            ),
            poller=self._poller,
            clock=self._clock,
            on_answer=self._on_answer,
            on_failure=self._ended,
        )
        self._request.start(now_s)

    def _on_answer(self, piece: bytes, ended: bool) -> None:
        try:
            token = self._answer.feed(piece, ended=ended, wall_ms=self._clock.wall_ms())
        except errors.ConnectError as failure:
            self._ended(failure)
            return
        if token is not None:
            self._ended(token)

    def _ended(self, outcome: token_request.Token | errors.ConnectError) -> None:
        now_s = self._clock.now_s()
        self.close()
        if isinstance(outcome, token_request.Token):
            self._keeper.received(outcome, now_s)
            if self._complained:
                log.info("tokens for client %r come again", self._oauth.client_id)
            self._complained = False
            return
        self._keeper.failed(outcome, now_s)
        if not self._complained:
            log.warning("a token for client %r: %s", self._oauth.client_id, outcome)
        self._complained = True
