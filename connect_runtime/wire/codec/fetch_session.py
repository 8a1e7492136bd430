"""Incremental fetch sessions (KIP-227): what the next Fetch to one broker has to say.

The broker remembers a session's partitions and their positions; a request names only what is new,
moved or no longer wanted, and an answer only what has news. So 2,000 idle partitions cost nothing.
One request of a session may be in flight: its epoch counts requests. Follows Java's
FetchSessionHandler where brokers refuse, forget or do not open sessions.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import NamedTuple

from connect_runtime.wire.codec import fetch

SESSION_NOT_FOUND = 70
NO_SESSION = 0
INITIAL_EPOCH = 0
"""In a request: open a session (and close the one whose id is given)."""
_LAST_EPOCH = 2**31 - 1


class FetchSessionRequest(NamedTuple):
    """The session's part of the next Fetch request; both lists go in as they are."""

    session_id: int
    session_epoch: int
    partitions: list[fetch.FetchPartition]
    forgotten: list[fetch.FetchPartition]


@dataclass(slots=True)
class FetchSession:
    """Wanted partitions of one broker, and how much of that the broker knows already.

    A partition that is wanted stays in the session until dropped: whoever cannot take more of its
    data drops it. Invariant: every key where `_wanted` and `_known` differ is in `_changed`.
    """

    _wanted: dict[Hashable, fetch.FetchPartition] = field(default_factory=dict)
    _known: dict[Hashable, fetch.FetchPartition] = field(default_factory=dict)
    _changed: dict[Hashable, None] = field(default_factory=dict)
    _session_id: int = NO_SESSION
    _epoch: int = INITIAL_EPOCH
    _in_flight: FetchSessionRequest | None = None

    def want(self, key: Hashable, partition: fetch.FetchPartition) -> None:
        """Read this partition from this position on; call it again whenever the position moves."""
        if self._wanted.get(key) != partition:
            self._wanted[key] = partition
            self._changed[key] = None

    def drop(self, key: Hashable) -> None:
        """Read it no longer; nothing happens if it was not wanted."""
        if self._wanted.pop(key, None) is not None:
            self._changed[key] = None

    def wanted(self) -> int:
        """How many partitions are wanted; with none there is nothing to fetch."""
        return len(self._wanted)

    def asked(self, key: Hashable) -> fetch.FetchPartition | None:
        """What the request in flight says of a partition; None when it does not ask for it."""
        return self._known.get(key)

    def in_flight(self) -> bool:
        return self._in_flight is not None

    def next_request(self) -> FetchSessionRequest:
        """What to ask; `answered` or `failed` must follow before the next one."""
        assert self._in_flight is None, "a session has one request in flight"
        request = self._everything() if self._epoch == INITIAL_EPOCH else self._news()
        self._changed.clear()
        self._in_flight = request
        return request

    def answered(self, response: fetch.FetchResponse) -> None:
        """A response came, of whatever error code; partitions' own errors do not matter here."""
        request, self._in_flight = self._in_flight, None
        assert request is not None, "an answer without a request"
        if response.error_code != 0:
            gone = response.error_code == SESSION_NOT_FOUND
            self._restart(NO_SESSION if gone else request.session_id)
        elif request.session_epoch == INITIAL_EPOCH:
            self._opened(request, response)
        elif response.session_id == NO_SESSION:
            self._restart(NO_SESSION)  # the broker closed it
        else:
            self._epoch = 1 if self._epoch == _LAST_EPOCH else self._epoch + 1

    def failed(self) -> None:
        """No answer came: what the broker knows is unknown, so begin anew (closing the old one)."""
        request, self._in_flight = self._in_flight, None
        assert request is not None, "a failure without a request"
        self._restart(request.session_id)

    def check_invariants(self) -> None:
        if self._epoch == INITIAL_EPOCH and self._in_flight is None:
            return  # the next request says everything
        for key in {*self._wanted, *self._known}:
            same = self._wanted.get(key) == self._known.get(key)
            assert same or key in self._changed, key

    def _everything(self) -> FetchSessionRequest:
        self._known = dict(self._wanted)
        return FetchSessionRequest(self._session_id, INITIAL_EPOCH, list(self._known.values()), [])

    def _news(self) -> FetchSessionRequest:
        partitions: list[fetch.FetchPartition] = []
        forgotten: list[fetch.FetchPartition] = []
        for key in self._changed:
            wanted, known = self._wanted.get(key), self._known.get(key)
            if wanted == known:
                continue  # moved and moved back, or dropped and wanted again
            if wanted is None:
                forgotten.append(self._known.pop(key))
                continue
            if known is not None and known.topic_id != wanted.topic_id:
                forgotten.append(known)  # the topic was recreated: another partition to the broker
            partitions.append(wanted)
            self._known[key] = wanted
        return FetchSessionRequest(self._session_id, self._epoch, partitions, forgotten)

    def _opened(self, request: FetchSessionRequest, response: fetch.FetchResponse) -> None:
        if response.session_id == NO_SESSION:
            self._restart(NO_SESSION)  # its cache is full, or it throttles: every request is full
        elif len(response.partitions) != len(request.partitions):
            self._restart(response.session_id)
        else:
            self._session_id, self._epoch = response.session_id, 1

    def _restart(self, session_id: int) -> None:
        self._session_id, self._epoch = session_id, INITIAL_EPOCH
        self._known.clear()
