"""Admin operations on one Kafka cluster: metadata, topics, configs and groups.

The requests are sent over connections of `connect_runtime.network` and not through librdkafka,
which can crash the process when a broker returns a malformed response, such as a name that is not
UTF-8. `connect_runtime.network` raises an error for such a response.
"""

from __future__ import annotations

import logging
import random
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from connect_runtime.base import ids, plurals
from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.errors import ConnectError, RetriableError
from connect_runtime.kafka import client_errors
from connect_runtime.kafka.admin_requests import (
    NOT_CONTROLLER,
    AdminRequest,
    AdminRequestClient,
)
from connect_runtime.kafka.client_errors import ErrorAdvice
from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from connect_runtime.protocol import consumer_group_requests, request_builders, topic_requests
from connect_runtime.protocol.request_builders import (
    AnyNodeTarget,
    ControllerTarget,
    CoordinatorKey,
    NodeTarget,
    OffsetQuery,
    RequestBuilder,
    RequestTarget,
)
from connect_runtime.protocol.request_errors import REQUEST_FAILURES
from connect_runtime.protocol.topic_requests import ConfigChange, NewTopic

_TOPICS_PER_REQUEST = 250
_LOG = logging.getLogger(__name__)


class AdminClient:
    """Admin client of one cluster. Connects on first use. Not thread-safe.

    Without a call of `close`, the connections are closed when the client is garbage-collected. The
    callback `is_cancelled` must not hold a reference to the client or its owner, because the
    reference would prevent this.

    All methods raise `UnreachableError` after a timeout, `RetriableError` for a malformed response,
    and `AuthenticationError` as soon as credentials or certificates are rejected. Some
    methods return entries of a response, one per topic. An entry is an entity of kio, the Kafka
    protocol codec. `translate_response_error` translates the error code of an entry.
    """

    def __init__(
        self,
        access: KafkaClusterAccess,
        *,
        client_id: str,
        clock: Clock,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        """Create the client. After `is_cancelled` returns True, calls promptly raise
        `RetriableError`."""
        self._access = access
        self._client_id = client_id
        self._clock = clock
        self._is_cancelled = is_cancelled
        self._requests: AdminRequestClient | None = None
        self._ignored_topic_count = 0

    def read_cluster_id(self, timeout_s: float) -> str:
        """Return the cluster id."""
        return str(self._read_metadata((), timeout_s, doing="reading the cluster id").cluster_id)

    def list_brokers(self, timeout_s: float) -> list[int]:
        """Return the ids of the cluster's brokers."""
        found = self._read_metadata((), timeout_s, doing="listing brokers")
        return sorted(int(each.node_id) for each in found.brokers)

    def list_topics(self, timeout_s: float) -> frozenset[str]:
        """Return the names of all topics that the principal may describe. Names that Kafka does
        not allow are ignored with a warning."""
        found = self._read_metadata(None, timeout_s, doing="listing topics")
        names = frozenset(str(each.name) for each in found.topics if each.name is not None)
        valid = frozenset(filter(ids.is_valid_topic_name, names))
        self._warn_of_ignored_topics(len(names) - len(valid))
        return valid

    def describe_topics(self, names: Sequence[str], timeout_s: float) -> dict[str, Any]:
        """Return each topic's entry in the Metadata response, by topic name."""
        found: dict[str, Any] = {}
        for chunk, left_s in self._split_into_batches(names, timeout_s):
            doing = _describe_topic_batch("describing topic", chunk)
            response = self._read_metadata(chunk, left_s, doing=doing)
            entities = {str(each.name): each for each in response.topics}
            found.update(self._select_requested_response_entries(chunk, entities, doing=doing))
        return found

    def describe_topic_configs(self, names: Sequence[str], timeout_s: float) -> dict[str, Any]:
        """Return each topic's entry in the DescribeConfigs response, by topic name."""
        found: dict[str, Any] = {}
        for chunk, left_s in self._split_into_batches(names, timeout_s):
            message = topic_requests.build_describe_configs_request(
                topic_requests.TOPIC_RESOURCE, chunk
            )
            doing = _describe_topic_batch("reading configs of", chunk)
            response = self._send_admin_request(AnyNodeTarget(), message, left_s, doing=doing)
            entities = {str(each.resource_name): each for each in response.results}
            found.update(self._select_requested_response_entries(chunk, entities, doing=doing))
        return found

    def describe_broker_configs(self, broker: int, timeout_s: float) -> Any:
        """Return the broker's entry in the DescribeConfigs response."""
        message = topic_requests.build_describe_configs_request(
            topic_requests.BROKER_RESOURCE, [str(broker)]
        )
        doing = f"reading configs of broker {broker}"
        response = self._send_admin_request(NodeTarget(broker), message, timeout_s, doing=doing)
        entities = {str(each.resource_name): each for each in response.results}
        return self._select_requested_response_entries([str(broker)], entities, doing=doing)[
            str(broker)
        ]

    def create_topics(
        self, topics: Sequence[NewTopic], timeout_s: float, *, validate_only: bool = False
    ) -> dict[str, Any]:
        """Create topics with one request. Returns the entry of each topic in the CreateTopics
        response, by name.

        If no response arrives, the request is sent again. A topic that the first request created is
        then reported as already existing.
        """
        names = [each.name for each in topics]
        message = topic_requests.build_create_topics_request(
            topics, timeout_ms=self._limit_timeout_ms(timeout_s), validate_only=validate_only
        )
        doing = _describe_topic_batch("creating topic", names)
        response = self._send_admin_request(
            ControllerTarget(),
            message,
            timeout_s,
            doing=doing,
            get_error_code=lambda body: _find_controller_error(body.topics),
        )
        return self._select_requested_response_entries(
            names, {str(each.name): each for each in response.topics}, doing=doing
        )

    def create_partitions(self, counts: Mapping[str, int], timeout_s: float) -> dict[str, Any]:
        """Increase the partition counts of topics to the given numbers with one request. Returns
        the entry of each topic in the CreatePartitions response, by name."""
        names = list(counts)
        message = topic_requests.build_create_partitions_request(
            counts, timeout_ms=self._limit_timeout_ms(timeout_s)
        )
        doing = _describe_topic_batch("adding partitions to", names)
        response = self._send_admin_request(
            ControllerTarget(),
            message,
            timeout_s,
            doing=doing,
            get_error_code=lambda body: _find_controller_error(body.results),
        )
        return self._select_requested_response_entries(
            names, {str(each.name): each for each in response.results}, doing=doing
        )

    def alter_topic_configs(
        self, changes: Mapping[str, ConfigChange], timeout_s: float
    ) -> dict[str, Any]:
        """Change configs of topics with one request. Returns the entry of each topic in the
        response, by name."""
        names = list(changes)
        message = topic_requests.build_alter_topic_configs_request(changes)
        doing = _describe_topic_batch("changing configs of", names)
        response = self._send_admin_request(ControllerTarget(), message, timeout_s, doing=doing)
        entities = {str(each.resource_name): each for each in response.responses}
        return self._select_requested_response_entries(names, entities, doing=doing)

    def list_offsets(
        self,
        leader: int,
        queries: Mapping[str, Sequence[OffsetQuery]],
        timeout_s: float,
        *,
        read_committed: bool,
    ) -> list[Any]:
        """Look up offsets of partitions that the given broker leads.

        Returns the topic entries of the ListOffsets response, in any order; each contains the
        entries of its partitions. A failed request is not retried, because the partitions may have
        another leader by then.
        """
        doing = _describe_topic_batch("requesting the offsets of", list(queries))
        message = request_builders.build_list_offsets_request(
            queries, read_committed=read_committed, timeout_ms=self._limit_timeout_ms(timeout_s)
        )
        response = self._send_admin_request(
            NodeTarget(leader), message, timeout_s, doing=doing, retry=False
        )
        return list(response.topics)

    def list_groups(self, timeout_s: float) -> list[Any]:
        """Return all groups that the principal may describe, as entities of ListGroups
        responses."""
        end_s = self._clock.now_s() + timeout_s
        found: list[Any] = []
        for broker in self.list_brokers(timeout_s):
            left_s = max(0.01, end_s - self._clock.now_s())
            message = consumer_group_requests.build_list_groups_request()
            doing = f"listing groups of broker {broker}"
            found += self._send_admin_request(
                NodeTarget(broker), message, left_s, doing=doing
            ).groups
        return found

    def describe_classic_group(self, group: str, timeout_s: float) -> Any:
        """Return a group with its members as an entity of a DescribeGroups response."""
        response = self._send_admin_request(
            CoordinatorKey(request_builders.GROUP_COORDINATOR, group),
            consumer_group_requests.build_describe_classic_groups_request(group),
            timeout_s,
            doing=f"describing group {group}",
            get_error_code=consumer_group_requests.find_error_code,
        )
        entities = {str(each.group_id): each for each in response.groups}
        return self._select_requested_response_entries(
            [group], entities, doing=f"describing group {group}"
        )[group]

    def translate_response_error(
        self, entity: Any, doing: str, advice: Mapping[int, ErrorAdvice] | None = None
    ) -> ConnectError:
        """Translate a response entity's error code, with its error message if it has one, to a
        `ConnectError`."""
        return client_errors.translate_error_code(
            int(entity.error_code),
            doing,
            where=self._access.name_and_addresses,
            broker_message=getattr(entity, "error_message", None),
            advice_overrides=advice,
        )

    def close(self) -> None:
        """Close all connections."""
        if self._requests is not None:
            self._requests = None
            self._close_requests()

    def _warn_of_ignored_topics(self, count: int) -> None:
        """Warn about topics with invalid names, if their number has changed since the last call."""
        if count and count != self._ignored_topic_count:
            _LOG.warning(
                "%s: ignoring %s with names that Kafka does not allow; a name may have 1 to 249 "
                "letters, digits, dots, dashes and underscores",
                self._access.name_and_addresses,
                plurals.format_count(count, "topic"),
            )
        self._ignored_topic_count = count

    def _split_into_batches(
        self, names: Sequence[str], timeout_s: float
    ) -> Iterator[tuple[Sequence[str], float]]:
        """Yield the topic names in batches, each with the number of seconds left until the call's
        timeout."""
        end_s = self._clock.now_s() + timeout_s
        for at in range(0, len(names), _TOPICS_PER_REQUEST):
            yield names[at : at + _TOPICS_PER_REQUEST], max(0.01, end_s - self._clock.now_s())

    def _select_requested_response_entries(
        self, names: Sequence[str], entities: Mapping[str, Any], *, doing: str
    ) -> dict[str, Any]:
        """Return the response entries of the requested topics or brokers, by name. Raises
        `RetriableError` if the response has no entry for one of them."""
        if any(name not in entities for name in names):
            raise RetriableError(
                f"{doing} on {self._access.name_and_addresses}: the response is incomplete"
            )
        return {name: entities[name] for name in names}

    def _read_metadata(self, topics: Sequence[str] | None, timeout_s: float, *, doing: str) -> Any:
        message = request_builders.build_metadata_request(topics)
        return self._send_admin_request(AnyNodeTarget(), message, timeout_s, doing=doing)

    def _send_admin_request(
        self,
        to: RequestTarget,
        message: RequestBuilder,
        timeout_s: float,
        *,
        doing: str,
        get_error_code: Callable[[Any], int] = lambda body: int(getattr(body, "error_code", 0)),
        retry: bool = True,
    ) -> Any:
        request = AdminRequest(
            to=to,
            message=message,
            doing=doing,
            get_error_code=get_error_code,
            retry=retry,
        )
        try:
            return self._get_request_client().send_request(request, timeout_s)
        except ConnectError as error:
            where = f"{doing} on {self._access.name_and_addresses}"
            if self._is_cancelled():
                raise RetriableError(f"{where} was canceled by shutdown") from error
            if isinstance(error, REQUEST_FAILURES):
                raise client_errors.translate_request_failure(error, where) from error
            raise

    def _limit_timeout_ms(self, timeout_s: float) -> int:
        """Return the timeout in ms to send in a request to the controller: the timeout of the call,
        limited to the connections' request timeout."""
        limit_s = self._access.to_connection_settings(self._client_id).request_timeout_s
        return max(1, round(min(timeout_s, limit_s) * 1000))

    def _get_request_client(self) -> AdminRequestClient:
        if self._requests is None:
            self._requests = AdminRequestClient(
                self._access.to_connection_settings(self._client_id),
                clock=self._clock,
                rng=random.Random(),  # noqa: S311  # spreads waits, no secret
                where=self._access.name_and_addresses,
                is_cancelled=self._is_cancelled,
            )
            self._close_requests = weakref.finalize(self, self._requests.close)
        return self._requests


def _describe_topic_batch(doing: str, chunk: Sequence[str]) -> str:
    return f"{doing} {chunk[0]}" + (f" and {len(chunk) - 1} more" if chunk[1:] else "")


def _find_controller_error(entities: Sequence[Any]) -> int:
    """Return NOT_CONTROLLER if the responding broker is no longer the controller, otherwise 0.

    All other error codes apply to individual topics and are left to the caller.
    """
    codes = {int(each.error_code) for each in entities}
    return NOT_CONTROLLER if NOT_CONTROLLER in codes else 0
