"""When to ask for a token, and whether there is one: refreshed in time, never asked for too often.

A machine without I/O. Refreshing follows Java's ExpiringCredentialRefreshConfig: at a share of the
token's life, not sooner than a minimum after it came, not later than a buffer before its end; both
are given up where the life is too short for them.
"""

from __future__ import annotations

import math
import random

from connect_runtime.base import backoff, errors
from connect_runtime.wire.codec import oauth_settings, token_request

_MARGIN_S = 2.0
_MARGIN = 0.02
"""A token that is about to expire is of no use to anybody who only begins to connect."""

_NEWER_S = 0.5
"""Expiry counts in whole seconds and is measured by two clocks."""


class TokenKeeper:
    """Invariant: while a request is under way none is due.

    `trouble`: why the last request, or the token that it brought, was of no use.
    """

    def __init__(self, oauth: oauth_settings.OAuth, rng: random.Random) -> None:
        self.trouble: errors.ConnectError | None = None
        self.under_way = False
        self._oauth = oauth
        self._rng = rng
        self._retry = backoff.Backoff(initial_s=oauth.retry_s, max_s=oauth.retry_max_s)
        self._token: token_request.Token | None = None
        self._expires_s = -math.inf
        self._due_s = math.inf
        self._not_before_s = -math.inf

    def current(self, now_s: float) -> str | None:
        """The token's text; None if there is none that is of use."""
        if self._token is None:
            return None
        margin_s = min(_MARGIN_S, _MARGIN * self._token.life_s)
        return self._token.text if now_s < self._expires_s - margin_s else None

    def want(self, now_s: float) -> str | errors.ConnectError | None:
        """The token, or why there is none; None: wait, a request is due or under way."""
        found = self.current(now_s)
        if found is not None:
            return found
        if self.under_way:
            return None
        if self.trouble is not None and now_s < self._not_before_s:
            return self.trouble
        self._due_s = -math.inf
        return None

    def outlives(self, ends_s: float, now_s: float) -> bool:
        """Is the token good for clearly longer than until then? If not, the next one is due."""
        if self._token is not None and self._expires_s > ends_s + _NEWER_S:
            return True
        self._due_s = min(self._due_s, now_s)
        return False

    def due_s(self) -> float:
        """When to send a request (monotonic), infinity for never."""
        return math.inf if self.under_way else max(self._due_s, self._not_before_s)

    def asked(self) -> None:
        """A request was sent; `received` or `failed` must follow."""
        assert not self.under_way, "one request at a time"
        self.under_way = True

    def received(self, token: token_request.Token, now_s: float) -> None:
        """Its life is counted from now."""
        self.under_way = False
        self.trouble = None
        if now_s + token.life_s <= self._expires_s + _NEWER_S:
            self._wait(now_s)  # an issuer that gives the same token until it ends: no use to hurry
        self._token = token
        self._expires_s = now_s + token.life_s
        self._due_s = now_s + self._refresh_after_s(token.life_s)

    def failed(self, failure: errors.ConnectError, now_s: float) -> None:
        self.under_way = False
        self.trouble = failure
        self._wait(now_s)
        self._due_s = self._not_before_s if self._token is not None else math.inf

    def refused(self, text: str, failure: errors.ConnectError, now_s: float) -> None:
        """A broker does not take this token: another one is asked for, though not at once."""
        if self._token is not None and self._token.text == text:
            self._token = None
            self._due_s = math.inf
            self.trouble = failure
            self._wait(now_s)

    def accepted(self) -> None:
        """A broker took the token: the next trouble is a new one."""
        self._retry.reset()

    def _wait(self, now_s: float) -> None:
        self._not_before_s = now_s + self._retry.next_delay_s(self._rng)

    def _refresh_after_s(self, life_s: float) -> float:
        share = self._oauth.refresh_factor + self._rng.uniform(0.0, self._oauth.refresh_jitter)
        wanted_s = life_s * min(share, 1.0 - _MARGIN)
        least_s, buffer_s = self._oauth.refresh_min_period_s, self._oauth.refresh_buffer_s
        if least_s + buffer_s > life_s:
            return wanted_s
        return max(least_s, min(wanted_s, life_s - buffer_s))
