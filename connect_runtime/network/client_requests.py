"""Client calls: each is one request to a cluster, from submission to response.

Until its deadline, a call waits for a broker, then for a connection, then for its response. It ends
exactly once, with a `ClientResponse` that reports whether any byte was sent.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from connect_runtime.base.errors import ConnectError
from connect_runtime.network.tcp_and_tls_transport import OutgoingRequest, RequestOutcome, SendChunk
from connect_runtime.protocol import api_versions, request_framing
from connect_runtime.protocol.api_versions import NodeApiVersions
from connect_runtime.protocol.cluster_metadata import NO_NODE
from connect_runtime.protocol.request_builders import NodeTarget, RequestBuilder, RequestTarget
from connect_runtime.protocol.request_errors import MalformedResponseError

NO_VERSION = -1


class ClientResponse(NamedTuple):
    """Result of a client call: the decoded response in `body` (an entity of the kio library), or a
    `failure`."""

    body: Any
    version: int
    failure: ConnectError | None
    sent: bool
    """After a failure, False if no byte was sent, so that the broker cannot have executed the
    request. True if a byte may have been sent."""
    node_id: int
    """Id of the broker to which the request was last sent; -1 if it was not sent."""
    elapsed_s: float
    """Time in seconds from sending the first byte to receiving the response."""


class RawClientResponse(NamedTuple):
    """Like `ClientResponse`, but with a writable view of the undecoded response body."""

    body: memoryview | None
    version: int
    failure: ConnectError | None
    sent: bool
    node_id: int
    elapsed_s: float


@dataclass(slots=True, kw_only=True, eq=False)
class ClientCall:
    """A request that is waiting for a broker, for a connection, or for its response."""

    api_key: int
    to: RequestTarget
    lane: str
    queued_s: float
    deadline_s: float
    waiting: bool = True
    """False once the call was passed to a connection, or has ended. From then on, the call cannot
    be sent to another broker, and the connection enforces the timeout."""

    @property
    def api(self) -> str:
        """Name of the Kafka API that the request calls."""
        return api_versions.API_NAMES.get(self.api_key, f"API {self.api_key}")

    @property
    def can_reroute(self) -> bool:
        """True if the request may be sent to another broker when the chosen broker is
        unreachable."""
        return not isinstance(self.to, NodeTarget)

    def can_encode_request(self, known: NodeApiVersions | None) -> bool:
        """Return True if `encode_request` is certain to succeed with these API versions."""
        return False

    def encode_request(
        self, known: NodeApiVersions, *, node_id: int, on_throttle: Callable[[int], None]
    ) -> OutgoingRequest:
        """Encode the request for a broker that supports these API versions. `on_throttle` is called
        with the throttle time in ms.

        Raises UnsupportedVersion.
        """
        raise NotImplementedError

    def fail(self, failure: ConnectError, *, node_id: int = NO_NODE) -> None:
        """End the call with a failure before its request is sent."""
        raise NotImplementedError


@dataclass(slots=True, kw_only=True, eq=False)
class VersionedCall(ClientCall):
    """A client call whose request is encoded once the broker's API versions are known."""

    message: RequestBuilder
    max_version: int | None
    done: Callable[[ClientResponse], None]

    def encode_request(
        self, known: NodeApiVersions, *, node_id: int, on_throttle: Callable[[int], None]
    ) -> OutgoingRequest:
        high = self.message.high
        if self.max_version is not None:
            high = min(high, self.max_version)
        version = known.choose_version(self.api_key, low=self.message.low, high=high)
        return OutgoingRequest(
            api_key=self.api_key,
            version=version,
            chunks=[
                request_framing.encode_request_body(self.message.build_request_message(version))
            ],
            deadline_s=self.deadline_s,
            queued_s=self.queued_s,
            done=lambda outcome: self._finish_call_with_outcome(
                outcome, version, node_id=node_id, on_throttle=on_throttle
            ),
        )

    def fail(self, failure: ConnectError, *, node_id: int = NO_NODE) -> None:
        self.waiting = False
        self.done(ClientResponse(None, NO_VERSION, failure, False, node_id, 0.0))

    def _finish_call_with_outcome(
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
                entity = self.message.decode_response(version, outcome.body)
            except MalformedResponseError as truncated:
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
    """A client call whose request body the caller has already encoded for one broker."""

    version: int
    chunks: Sequence[SendChunk] = field(repr=False)
    done: Callable[[RawClientResponse], None]

    def can_encode_request(self, known: NodeApiVersions | None) -> bool:
        return known is not None and known.supports_version(self.api_key, self.version)

    def encode_request(
        self, known: NodeApiVersions, *, node_id: int, on_throttle: Callable[[int], None]
    ) -> OutgoingRequest:
        if not known.supports_version(self.api_key, self.version):
            known.choose_version(
                self.api_key, low=self.version, high=self.version
            )  # raises UnsupportedVersion
        chunks, self.chunks = self.chunks, ()  # release the bytes before the deadline
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
    """Tracks the deadlines of client calls that have not ended.

    Invariant: every added call that has not ended is in `_heap`.
    """

    def __init__(self, waiting_max: int) -> None:
        self._waiting_max = waiting_max
        self._heap: list[tuple[float, int, ClientCall]] = []
        self._order = itertools.count()

    def __len__(self) -> int:
        """Return the number of tracked calls. Calls that have already ended may be included."""
        return len(self._heap)

    def add_call(self, call: ClientCall) -> bool:
        """Track the deadline of a call. Return False if too many calls are already waiting."""
        if len(self._heap) >= self._waiting_max:
            self._heap = [entry for entry in self._heap if entry[2].waiting]
            heapq.heapify(self._heap)
        if len(self._heap) >= self._waiting_max:
            return False
        heapq.heappush(self._heap, (call.deadline_s, next(self._order), call))
        return True

    @property
    def earliest_deadline_s(self) -> float:
        """Earliest monotonic deadline of the waiting calls; infinity if no calls are waiting."""
        return self._heap[0][0] if self._heap else math.inf

    def pop_expired_calls(self, now_s: float) -> Iterator[ClientCall]:
        """Remove and yield the calls that have expired. Calls may be added during the iteration."""
        while self._heap and (self._heap[0][0] <= now_s or not self._heap[0][2].waiting):
            _, _, call = heapq.heappop(self._heap)
            if call.waiting:
                yield call
