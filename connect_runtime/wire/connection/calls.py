"""One request from being asked for to its reply, whichever connection it takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from connect_runtime.base import errors
from connect_runtime.wire.codec import failures, frames, messages, targets, versions
from connect_runtime.wire.connection import framing, transport

NO_VERSION = -1
NO_NODE = -1


class Reply(NamedTuple):
    """How a call ended: `body`, a kio response entity, or `failure`.

    sent: False with a failure means that no byte left, so it was certainly not executed; True with
    a failure: nobody knows. node_id: who was asked last, -1 nobody. elapsed_s: from the first byte
    sent to the answer.
    """

    body: Any
    version: int
    failure: errors.ConnectError | None
    sent: bool
    node_id: int
    elapsed_s: float


class RawReply(NamedTuple):
    """As Reply, with the bytes after the response header as a writable view."""

    body: memoryview | None
    version: int
    failure: errors.ConnectError | None
    sent: bool
    node_id: int
    elapsed_s: float


@dataclass(slots=True, kw_only=True, eq=False)
class Call:
    """A request that waits for a broker, for a connection, or for its answer.

    waiting: not handed to a connection yet; who waits may still be sent elsewhere, or expire.
    """

    api_key: int
    to: targets.Target
    lane: str
    queued_s: float
    deadline_s: float
    waiting: bool = True

    @property
    def api(self) -> str:
        return versions.API_NAMES.get(self.api_key, f"API {self.api_key}")

    @property
    def follows(self) -> bool:
        """Whether another node may be asked instead, when the first one cannot be reached."""
        return not isinstance(self.to, targets.Node)

    def fits(self, known: versions.BrokerVersions | None) -> bool:
        """Whether `request` is certain not to raise."""
        return False

    def request(
        self, known: versions.BrokerVersions, *, node_id: int, on_throttle: Callable[[int], None]
    ) -> framing.Request:
        """Encode it for a broker; raises UnsupportedVersion. `on_throttle` gets milliseconds."""
        raise NotImplementedError

    def fail(self, failure: errors.ConnectError, *, node_id: int = NO_NODE) -> None:
        """End it without its ever having been sent."""
        raise NotImplementedError


@dataclass(slots=True, kw_only=True, eq=False)
class MessageCall(Call):
    """A message that is encoded once the broker's versions are known."""

    message: messages.Message
    max_version: int | None
    done: Callable[[Reply], None]

    def request(
        self, known: versions.BrokerVersions, *, node_id: int, on_throttle: Callable[[int], None]
    ) -> framing.Request:
        high = self.message.high
        if self.max_version is not None:
            high = min(high, self.max_version)
        version = known.choose(self.api_key, low=self.message.low, high=high)
        return framing.Request(
            api_key=self.api_key,
            version=version,
            chunks=[frames.encode_body(self.message.entity(version))],
            deadline_s=self.deadline_s,
            queued_s=self.queued_s,
            done=lambda outcome: self._finish(
                outcome, version, node_id=node_id, on_throttle=on_throttle
            ),
        )

    def fail(self, failure: errors.ConnectError, *, node_id: int = NO_NODE) -> None:
        self.waiting = False
        self.done(Reply(None, NO_VERSION, failure, False, node_id, 0.0))

    def _finish(
        self,
        outcome: framing.Outcome,
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
            except failures.TruncatedResponse as truncated:
                failure = truncated
            else:
                throttle = getattr(entity, "throttle_time", None)
                if throttle:
                    on_throttle(round(throttle.total_seconds() * 1000))
        self.done(Reply(entity, version, failure, outcome.sent, node_id, outcome.elapsed_s))


@dataclass(slots=True, kw_only=True, eq=False)
class RawCall(Call):
    """Bytes that the caller encoded, for exactly one broker."""

    version: int
    chunks: Sequence[transport.Chunk] = field(repr=False)
    done: Callable[[RawReply], None]

    def fits(self, known: versions.BrokerVersions | None) -> bool:
        return known is not None and known.knows(self.api_key, self.version)

    def request(
        self, known: versions.BrokerVersions, *, node_id: int, on_throttle: Callable[[int], None]
    ) -> framing.Request:
        if not known.knows(self.api_key, self.version):
            known.choose(self.api_key, low=self.version, high=self.version)  # raises, and says why
        chunks, self.chunks = self.chunks, ()  # this object may outlive its bytes by a deadline
        return framing.Request(
            api_key=self.api_key,
            version=self.version,
            chunks=list(chunks),
            deadline_s=self.deadline_s,
            queued_s=self.queued_s,
            done=lambda outcome: self.done(
                RawReply(
                    outcome.body,
                    self.version,
                    outcome.failure,
                    outcome.sent,
                    node_id,
                    outcome.elapsed_s,
                )
            ),
        )

    def fail(self, failure: errors.ConnectError, *, node_id: int = NO_NODE) -> None:
        self.waiting = False
        self.done(RawReply(None, self.version, failure, False, node_id, 0.0))
