"""Reads the metadata and configurations of a cluster over the runtime's own connections.

librdkafka's Python binding ends the process when brokers return a name that is not UTF-8. These
connections reject such a response.
"""

from __future__ import annotations

import random
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from connect_runtime.base.errors import ConnectError, RetriableError
from connect_runtime.base.timing import Clock
from connect_runtime.kafka import client_errors
from connect_runtime.kafka.admin_requests import AdminRequest, AdminRequestClient
from connect_runtime.kafka.client_errors import ErrorAdvice
from connect_runtime.kafka.cluster_access import KafkaClusterAccess
from connect_runtime.protocol import request_builders
from connect_runtime.protocol.request_builders import (
    AnyNodeTarget,
    NodeTarget,
    RequestBuilder,
    RequestTarget,
)
from connect_runtime.protocol.request_errors import (
    AuthenticationFailed,
    FailureLayer,
    TruncatedResponse,
)

_TOPICS_PER_REQUEST = 250


class MetadataClient:
    """Reads metadata and configurations. Connects on first use. Not thread-safe.

    A client that is dropped without `close` is closed, like librdkafka's, unless `is_cancelled`
    refers to it or its owner.

    All methods raise `UnreachableError` after a timeout, `RetriableError` for a malformed response,
    and `AuthenticationError` as soon as credentials or certificates are rejected.
    """

    def __init__(
        self,
        access: KafkaClusterAccess,
        *,
        client_id: str,
        clock: Clock,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        """After `is_cancelled` returns True, calls promptly raise `RetriableError`."""
        self._access = access
        self._client_id = client_id
        self._clock = clock
        self._is_cancelled = is_cancelled
        self._requests: AdminRequestClient | None = None

    def read_cluster_id(self, timeout_s: float) -> str:
        """Return the cluster id."""
        return str(self._read((), timeout_s, doing="reading the cluster id").cluster_id)

    def list_brokers(self, timeout_s: float) -> list[int]:
        """Return the ids of the brokers."""
        found = self._read((), timeout_s, doing="listing brokers")
        return sorted(int(each.node_id) for each in found.brokers)

    def list_topics(self, timeout_s: float) -> frozenset[str]:
        """Return the names of all visible topics."""
        found = self._read(None, timeout_s, doing="listing topics")
        return frozenset(str(each.name) for each in found.topics if each.name is not None)

    def describe_topics(self, names: Sequence[str], timeout_s: float) -> dict[str, Any]:
        """Return the metadata of each topic as an entity of the kio library, which may have an
        error code."""
        found: dict[str, Any] = {}
        for chunk, left_s in self._split(names, timeout_s):
            doing = _describe_chunk("describing topic", chunk)
            response = self._read(chunk, left_s, doing=doing)
            entities = {str(each.name): each for each in response.topics}
            found.update(self._select(chunk, entities, doing=doing))
        return found

    def describe_topic_configs(self, names: Sequence[str], timeout_s: float) -> dict[str, Any]:
        """Return the configuration of each topic as an entity of the kio library, which may have an
        error code."""
        found: dict[str, Any] = {}
        for chunk, left_s in self._split(names, timeout_s):
            message = request_builders.describe_configs(request_builders.TOPIC_RESOURCE, chunk)
            doing = _describe_chunk("reading configs of", chunk)
            response = self._send(AnyNodeTarget(), message, left_s, doing=doing)
            entities = {str(each.resource_name): each for each in response.results}
            found.update(self._select(chunk, entities, doing=doing))
        return found

    def describe_broker_configs(self, broker: int, timeout_s: float) -> Any:
        """Return the configuration of a broker as an entity of the kio library, which may have an
        error code."""
        message = request_builders.describe_configs(request_builders.BROKER_RESOURCE, [str(broker)])
        doing = f"reading configs of broker {broker}"
        response = self._send(NodeTarget(broker), message, timeout_s, doing=doing)
        entities = {str(each.resource_name): each for each in response.results}
        return self._select([str(broker)], entities, doing=doing)[str(broker)]

    def translate_error(
        self, code: int, doing: str, advice: Mapping[int, ErrorAdvice] | None = None
    ) -> ConnectError:
        """Translate the error code of a response entity to a `ConnectError`."""
        return client_errors.translate_error_code(
            code, doing, where=self._access.where, advice_overrides=advice
        )

    def close(self) -> None:
        """Close all connections."""
        if self._requests is not None:
            self._requests = None
            self._close_requests()

    def _split(
        self, names: Sequence[str], timeout_s: float
    ) -> Iterator[tuple[Sequence[str], float]]:
        """Yield the topic names in batches, each with the remaining time in seconds."""
        end_s = self._clock.now_s() + timeout_s
        for at in range(0, len(names), _TOPICS_PER_REQUEST):
            yield names[at : at + _TOPICS_PER_REQUEST], max(0.01, end_s - self._clock.now_s())

    def _select(
        self, names: Sequence[str], entities: Mapping[str, Any], *, doing: str
    ) -> dict[str, Any]:
        """Return the response entities of the requested names. Raises `RetriableError` if an entity
        is missing."""
        if any(name not in entities for name in names):
            raise RetriableError(f"{doing} on {self._access.where}: the response is incomplete")
        return {name: entities[name] for name in names}

    def _read(self, topics: Sequence[str] | None, timeout_s: float, *, doing: str) -> Any:
        message = request_builders.request_metadata(topics)
        return self._send(AnyNodeTarget(), message, timeout_s, doing=doing)

    def _send(
        self, to: RequestTarget, message: RequestBuilder, timeout_s: float, *, doing: str
    ) -> Any:
        request = AdminRequest(
            to=to,
            message=message,
            doing=f"{doing} on {self._access.where}",
            get_error_code=lambda body: int(getattr(body, "error_code", 0)),
        )
        try:
            return self._connect().send(request, timeout_s)
        except (AuthenticationFailed, RetriableError) as error:
            raise self._translate(error, request.doing) from error

    def _connect(self) -> AdminRequestClient:
        if self._requests is None:
            self._requests = AdminRequestClient(
                self._access.to_connection_settings(self._client_id),
                clock=self._clock,
                rng=random.Random(),  # noqa: S311  # spreads waits, no secret
                where=self._access.where,
                is_cancelled=self._is_cancelled,
            )
            self._close_requests = weakref.finalize(self, self._requests.close)
        return self._requests

    def _translate(self, error: ConnectError, doing: str) -> ConnectError:
        if self._is_cancelled():
            return RetriableError(f"{doing} was canceled by shutdown")
        match error:
            case AuthenticationFailed(layer=FailureLayer.TLS):
                kind, advice = client_errors.CERTIFICATE_REFUSED
            case AuthenticationFailed(layer=FailureLayer.AUTH):
                kind, advice = client_errors.CREDENTIALS_REFUSED
            case TruncatedResponse():
                kind, advice = client_errors.RESPONSE_MALFORMED
            case _:
                kind, advice = client_errors.NO_RESPONSE
        return kind(f"{doing}: {error}; {advice}")


def _describe_chunk(doing: str, chunk: Sequence[str]) -> str:
    return f"{doing} {chunk[0]}" + (f" and {len(chunk) - 1} more" if chunk[1:] else "")
