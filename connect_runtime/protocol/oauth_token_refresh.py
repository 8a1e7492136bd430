"""Decides when to request a new OAuth access token: before the current token expires, or after a
broker rejects it."""

from __future__ import annotations

import math
import random

from connect_runtime.base.backoff import Backoff
from connect_runtime.base.errors import ConnectError
from connect_runtime.protocol.oauthbearer import AccessToken, OAuthSettings

_EXPIRY_MARGIN_S = 2.0
_EXPIRY_MARGIN_FRACTION = 0.02
"""Expiry margin as a fraction of the token's lifetime, limited to `_EXPIRY_MARGIN_S` seconds. A
token that expires within the margin is not used for new connections."""
_MIN_EXPIRY_GAIN_S = 0.5
"""Tolerance for comparing expiry times, because they have a resolution of one second and come from
two clocks."""


class TokenRefresher:
    """State machine that decides when to request a new access token. Times are monotonic seconds.

    Invariant: no token request is due while another is in flight.
    """

    def __init__(self, oauth: OAuthSettings, rng: random.Random) -> None:
        self.last_failure: ConnectError | None = None
        """Error of the last token request or, if a broker rejected the requested token, the
        broker's error."""
        self.is_in_flight = False
        self._oauth = oauth
        self._rng = rng
        self._retry = Backoff(initial_s=oauth.retry_s, max_s=oauth.retry_max_s)
        self._token: AccessToken | None = None
        self._expires_s = -math.inf
        self._due_s = math.inf
        self._not_before_s = -math.inf

    def get_current_token(self, now_s: float) -> str | None:
        """Return the current access token; None if there is no token or the token is about to
        expire."""
        if self._token is None:
            return None
        margin_s = min(_EXPIRY_MARGIN_S, _EXPIRY_MARGIN_FRACTION * self._token.lifetime_s)
        return self._token.text if now_s < self._expires_s - margin_s else None

    def get_or_request_token(self, now_s: float) -> str | ConnectError | None:
        """Return the current access token. If there is none, return the error of the last token
        request during the backoff after a failure; otherwise return None and schedule a token
        request, unless one is in flight."""
        found = self.get_current_token(now_s)
        if found is not None:
            return found
        if self.is_in_flight:
            return None
        if self.last_failure is not None and now_s < self._not_before_s:
            return self.last_failure
        self._due_s = -math.inf
        return None

    def is_token_valid_beyond(self, ends_s: float, now_s: float) -> bool:
        """Return True if the token expires well after `ends_s`, the end of the SASL session.
        Otherwise, schedule a token refresh."""
        if self._token is not None and self._expires_s > ends_s + _MIN_EXPIRY_GAIN_S:
            return True
        self._due_s = min(self._due_s, now_s)
        return False

    def get_next_request_time_s(self) -> float:
        """Return the monotonic time of the next token request; infinity if no request is
        scheduled."""
        return math.inf if self.is_in_flight else max(self._due_s, self._not_before_s)

    def on_request_sent(self) -> None:
        """Record that a token request was sent. Call `on_token_received` or `on_request_failed`
        afterwards."""
        assert not self.is_in_flight, "only one token request may be in flight"
        self.is_in_flight = True

    def on_token_received(self, token: AccessToken, now_s: float) -> None:
        """Store a new access token, whose lifetime starts at `now_s`."""
        self.is_in_flight = False
        self.last_failure = None
        if now_s + token.lifetime_s <= self._expires_s + _MIN_EXPIRY_GAIN_S:
            self._start_backoff(
                now_s
            )  # the issuer returned the same token again: do not retry at once
        self._token = token
        self._expires_s = now_s + token.lifetime_s
        self._due_s = now_s + self._compute_refresh_delay_s(token.lifetime_s)

    def on_request_failed(self, failure: ConnectError, now_s: float) -> None:
        """Record that a token request failed, and schedule a retry."""
        self.is_in_flight = False
        self.last_failure = failure
        self._start_backoff(now_s)
        self._due_s = self._not_before_s if self._token is not None else math.inf

    def on_token_refused(self, text: str, failure: ConnectError, now_s: float) -> None:
        """Drop an access token that a broker rejected. A new token is requested after a backoff."""
        if self._token is not None and self._token.text == text:
            self._token = None
            self._due_s = math.inf
            self.last_failure = failure
            self._start_backoff(now_s)

    def on_token_accepted(self) -> None:
        """Reset the retry backoff, because a broker accepted the access token."""
        self._retry.reset()

    def _start_backoff(self, now_s: float) -> None:
        self._not_before_s = now_s + self._retry.next_delay_s(self._rng)

    def _compute_refresh_delay_s(self, life_s: float) -> float:
        share = self._oauth.refresh_factor + self._rng.uniform(0.0, self._oauth.refresh_jitter)
        wanted_s = life_s * min(share, 1.0 - _EXPIRY_MARGIN_FRACTION)
        least_s, buffer_s = self._oauth.refresh_min_period_s, self._oauth.refresh_buffer_s
        if least_s + buffer_s > life_s:
            return wanted_s
        return max(least_s, min(wanted_s, life_s - buffer_s))
