"""Client calls: one request from submission to response, whichever connection it takes.

A call waits for a broker, then for a connection, then for its response, until its deadline. It ends
exactly once, with a `ClientResponse` that says whether any byte was sent.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from connect_runtime.base.errors import ConnectError
from connect_runtime.network.transport import OutgoingRequest, RequestOutcome, SendChunk
from connect_runtime.protocol import api_versions, framing
from connect_runtime.protocol.api_versions import NodeApiVersions
from connect_runtime.protocol.request_builders import NodeTarget, RequestBuilder, RequestTarget
from connect_runtime.protocol.request_errors import TruncatedResponse

NO_VERSION = -1
NO_NODE = -1


class ClientResponse(NamedTuple):
    """How a call ended: `body`, a kio response entity, or `failure`.

    sent: False with a failure means that no byte left, so it was certainly not executed; True with
    a failure: nobody knows. node_id: who was asked last, -1 nobody. elapsed_s: from the first byte
    sent to the answer.
    """

    body: Any
    version: int
    failure: ConnectError | None
    sent: bool
    node_id: int
    elapsed_s: float


class RawClientResponse(NamedTuple):
    """As Reply, with the bytes after the response header as a writable view."""

    body: memoryview | None
    version: int
    failure: ConnectError | None
    sent: bool
    node_id: int
    elapsed_s: float


@dataclass(slots=True, kw_only=True, eq=False)
class ClientCall:
    """A request that waits for a broker, for a connection, or for its answer.

    waiting: not handed to a connection yet; who waits may still be sent elsewhere, or expire.
    """

    api_key: int
    to: RequestTarget
    lane: str
    queued_s: float
    deadline_s: float
    waiting: bool = True

    @property
    def api(self) -> str:
        return api_versions.API_NAMES.get(self.api_key, f"API {self.api_key}")

    @property
    def follows(self) -> bool:
        """Whether another node may be asked instead, when the first one cannot be reached."""
        return not isinstance(self.to, NodeTarget)

    def fits(self, known: NodeApiVersions | None) -> bool:
        """Whether `request` is certain not to raise."""
        return False

    def request(
        self, known: NodeApiVersions, *, node_id: int, on_throttle: Callable[[int], None]
    ) -> OutgoingRequest:
        """Encode it for a broker; raises UnsupportedVersion. `on_throttle` gets milliseconds."""
        raise NotImplementedError

    def fail(self, failure: ConnectError, *, node_id: int = NO_NODE) -> None:
        """End it without its ever having been sent."""
        raise NotImplementedError


@dataclass(slots=True, kw_only=True, eq=False)
class VersionedCall(ClientCall):
    """A message that is encoded once the broker's versions are known."""

    message: RequestBuilder
    max_version: int | None
    done: Callable[[ClientResponse], None]

    def request(
        self, known: NodeApiVersions, *, node_id: int, on_throttle: Callable[[int], None]
    ) -> OutgoingRequest:
        high = self.message.high
        if self.max_version is not None:
            high = min(high, self.max_version)
        version = known.choose(self.api_key, low=self.message.low, high=high)
        return OutgoingRequest(
            api_key=self.api_key,
            version=version,
            chunks=[framing.encode_request_body(self.message.entity(version))],
            deadline_s=self.deadline_s,
            queued_s=self.queued_s,
            done=lambda outcome: self._finish(
                outcome, version, node_id=node_id, on_throttle=on_throttle
            ),
        )

    def fail(self, failure: ConnectError, *, node_id: int = NO_NODE) -> None:
        self.waiting = False
        self.done(ClientResponse(None, NO_VERSION, failure, False, node_id, 0.0))

    def _finish(
        self,
        outcome: RequestOutcome,
        version: int,
        *,
        node_id: int,
        on_throttle: Callable[[int], None],
    ) -> None:
        entity: Any = None
        failure = outcome.failure
        if outcome.body is not None:
            try:
                entity = self.message.decoded(version, outcome.body)
            except TruncatedResponse as truncated:
                failure = truncated
            else:
                throttle = getattr(entity, "throttle_time", None)
                if throttle:
                    on_throttle(round(throttle.total_seconds() * 1000))
        self.done(
            ClientResponse(entity, version, failure, outcome.sent, node_id, outcome.elapsed_s)
        )


@dataclass(slots=True, kw_only=True, eq=False)
class EncodedCall(ClientCall):
    """Bytes that the caller encoded, for exactly one broker."""

    version: int
    chunks: Sequence[SendChunk] = field(repr=False)
    done: Callable[[RawClientResponse], None]

    def fits(self, known: NodeApiVersions | None) -> bool:
        return known is not None and known.knows(self.api_key, self.version)

    def request(
        self, known: NodeApiVersions, *, node_id: int, on_throttle: Callable[[int], None]
    ) -> OutgoingRequest:
        if not known.knows(self.api_key, self.version):
            known.choose(self.api_key, low=self.version, high=self.version)  # raises, and says why
        chunks, self.chunks = self.chunks, ()  # this object may outlive its bytes by a deadline
        return OutgoingRequest(
            api_key=self.api_key,
            version=self.version,
            chunks=list(chunks),
            deadline_s=self.deadline_s,
            queued_s=self.queued_s,
            done=lambda outcome: self.done(
                RawClientResponse(
                    outcome.body,
                    self.version,
                    outcome.failure,
                    outcome.sent,
                    node_id,
                    outcome.elapsed_s,
                )
            ),
        )

    def fail(self, failure: ConnectError, *, node_id: int = NO_NODE) -> None:
        self.waiting = False
        self.done(RawClientResponse(None, self.version, failure, False, node_id, 0.0))


class CallDeadlines:
    """Invariant: every call that was added and still waits is in `_heap`."""

    def __init__(self, waiting_max: int) -> None:
        self._waiting_max = waiting_max
        self._heap: list[tuple[float, int, ClientCall]] = []
        self._order = itertools.count()

    def __len__(self) -> int:
        """Calls that wait; at times some that no longer do are counted too."""
        return len(self._heap)

    def add(self, call: ClientCall) -> bool:
        """False: so many calls wait already that this one may not."""
        if len(self._heap) >= self._waiting_max:
            self._heap = [entry for entry in self._heap if entry[2].waiting]
            heapq.heapify(self._heap)
        if len(self._heap) >= self._waiting_max:
            return False
        heapq.heappush(self._heap, (call.deadline_s, next(self._order), call))
        return True

    @property
    def due_s(self) -> float:
        """The earliest deadline (monotonic seconds), infinity for none."""
        return self._heap[0][0] if self._heap else math.inf

    def late(self, now_s: float) -> Iterator[ClientCall]:
        """Take out the calls that wait in vain; others may be added meanwhile."""
        while self._heap and (self._heap[0][0] <= now_s or not self._heap[0][2].waiting):
            _, _, call = heapq.heappop(self._heap)
            if call.waiting:
                yield call
