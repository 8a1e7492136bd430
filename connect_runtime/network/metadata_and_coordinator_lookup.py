"""Refreshes cluster metadata and looks up coordinators.

Discovery uses a separate connection: if a discovery request hangs and its connection is closed,
other requests are not affected.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.errors import ConnectError, FatalError
from connect_runtime.network import broker_selection
from connect_runtime.network.broker_connections import BrokerConnection
from connect_runtime.network.client_requests import ClientResponse
from connect_runtime.protocol import cluster_metadata, request_builders
from connect_runtime.protocol.cluster_metadata import ClusterMetadata, CoordinatorCache
from connect_runtime.protocol.request_builders import (
    AnyNodeTarget,
    CoordinatorKey,
    NodeTarget,
    RequestBuilder,
    RequestTarget,
)
from connect_runtime.protocol.request_errors import (
    CoordinatorLookupRefused,
    MalformedResponseError,
    UnsupportedVersion,
)

log = logging.getLogger(__name__)

METADATA_PURPOSE = "metadata"
DISCOVERY_TIMEOUT_S = 5.0
"""Timeout of a discovery request. After the timeout, the request is sent to another broker. The
timeout is short, because recovery from every leader change depends on discovery."""


class DiscoveryOperations(Protocol):
    """Operations that discovery needs from the object that owns the connections."""

    def call(
        self,
        to: RequestTarget,
        message: RequestBuilder,
        *,
        done: Callable[[ClientResponse], None],
        timeout_s: float | None = None,
        lane: str = METADATA_PURPOSE,
    ) -> None:
        """Send a request to its target, with the same contract as `ClusterConnections.call`."""

    def get_broker_connection(self, node_id: int, name: str) -> BrokerConnection:
        """Return the lane (connection for one purpose) to a broker. `name` is the purpose."""

    def schedule_call_routing(self) -> None:
        """Try again to route calls whose broker was not known, because metadata or coordinators
        have changed."""

    def fail_calls(self, target: RequestTarget | None, failure: ConnectError) -> None:
        """Fail the calls that are waiting for this target. If the target is None, fail all waiting
        calls."""


class ClusterDiscovery:
    """Keeps cluster metadata and coordinators up to date. Call `retry_discovery_immediately` when
    connections open or close."""

    def __init__(
        self,
        cluster: DiscoveryOperations,
        *,
        view: ClusterMetadata,
        known: CoordinatorCache,
        bootstrap: Mapping[int, tuple[str, int]],
        rebootstrap: bool,
        clock: Clock,
    ) -> None:
        self._cluster = cluster
        self._view = view
        self._coordinators = known
        self._bootstrap = bootstrap
        self._rebootstrap = rebootstrap
        self._clock = clock
        self._not_before_s = -math.inf
        self._one_by_one = False
        self.rejected_metadata: MalformedResponseError | None = None
        """Why the last metadata response was malformed; None if it was valid."""

    def retry_discovery_immediately(self) -> None:
        """Retry discovery without waiting for the backoff, because a connection was opened or
        closed."""
        self._not_before_s = -math.inf

    def tick(self, now_s: float) -> None:
        """Send the metadata requests and coordinator lookups that are due."""
        if now_s >= self._get_next_refresh_time_s():
            self._request_metadata(now_s)
        batch = self._coordinators.start_lookup_batch(now_s)
        if batch:
            self._look_up_coordinators(batch)

    def get_next_tick_time_s(self) -> float:
        """Return the monotonic time by which `tick` must be called again."""
        return min(self._get_next_refresh_time_s(), self._coordinators.get_next_lookup_time_s())

    # metadata

    def _get_next_refresh_time_s(self) -> float:
        return max(self._view.get_next_refresh_time_s(), self._not_before_s)

    def _request_metadata(self, now_s: float) -> None:
        nodes = [*self._view.brokers]
        if self._rebootstrap or not nodes:
            nodes += self._bootstrap
        states = [
            self._cluster.get_broker_connection(node, METADATA_PURPOSE).get_connection_state()
            for node in nodes
        ]
        node_id, self._not_before_s = broker_selection.pick_broker(states, now_s)
        if node_id is None:
            return
        lane = self._cluster.get_broker_connection(node_id, METADATA_PURPOSE)
        if lane.connection is None:
            lane.request_connection()
            return
        topics = self._view.start_refresh()
        self._cluster.call(
            NodeTarget(node_id),
            request_builders.build_metadata_request(topics),
            done=self._on_metadata_response,
            timeout_s=DISCOVERY_TIMEOUT_S,
            lane=METADATA_PURPOSE,
        )

    def _on_metadata_response(self, reply: ClientResponse) -> None:
        now_s = self._clock.now_s()
        if reply.failure is not None or int(getattr(reply.body, "error_code", 0)):
            self._view.on_refresh_failed(now_s)
            if isinstance(reply.failure, MalformedResponseError):
                self._log_refused_metadata(reply.failure)
            if isinstance(reply.failure, FatalError):
                self._cluster.fail_calls(None, reply.failure)
            return
        self.rejected_metadata = None
        before = self._view.change_count
        self._view.apply_response(reply.body, now_s)
        if self._view.change_count != before:
            self._cluster.schedule_call_routing()

    def _log_refused_metadata(self, failure: MalformedResponseError) -> None:
        """Log a malformed metadata response, unless the previous one was malformed for the same
        reason."""
        if str(failure) != str(self.rejected_metadata):
            log.warning("ignoring the cluster's metadata: %s", failure)
        self.rejected_metadata = failure

    # coordinators

    def _look_up_coordinators(self, batch: Sequence[CoordinatorKey]) -> None:
        if not self._one_by_one:
            keys = [coordinator.key for coordinator in batch]
            self._send_coordinator_lookup(
                request_builders.build_find_coordinators_request(batch[0].kind, keys), batch
            )
            return
        for coordinator in batch:
            message = request_builders.build_find_coordinator_request(
                coordinator.kind, coordinator.key
            )
            self._send_coordinator_lookup(message, (coordinator,))

    def _send_coordinator_lookup(
        self, message: RequestBuilder, batch: Sequence[CoordinatorKey]
    ) -> None:
        self._cluster.call(
            AnyNodeTarget(),
            message,
            done=lambda reply: self._on_coordinators_found(batch, reply),
            timeout_s=DISCOVERY_TIMEOUT_S,
            lane=METADATA_PURPOSE,
        )

    def _on_coordinators_found(
        self, batch: Sequence[CoordinatorKey], reply: ClientResponse
    ) -> None:
        if isinstance(reply.failure, UnsupportedVersion):
            self._one_by_one = True  # a broker before 3.0 (KIP-699)
        if reply.failure is not None:
            self._coordinators.retry_lookups(batch, self._clock.now_s())
            return
        found: Sequence[Any] = getattr(reply.body, "coordinators", (reply.body,))
        by_key = {getattr(each, "key", batch[0].key): each for each in found}
        again: list[CoordinatorKey] = []
        for coordinator in batch:
            each = by_key.get(coordinator.key)
            code = -1 if each is None else int(each.error_code)
            if each is not None and code == 0:
                self._coordinators.store_lookup_result(coordinator, int(each.node_id))
            elif code in cluster_metadata.RETRIABLE_LOOKUP_ERRORS:
                again.append(coordinator)
            else:
                self._coordinators.drop_lookup(coordinator)
                refused = CoordinatorLookupRefused(
                    coordinator.describe_group_or_transactional_id(), error_code=code
                )
                self._cluster.fail_calls(coordinator, refused)
        if again:
            self._coordinators.retry_lookups(again, self._clock.now_s())
        self._cluster.schedule_call_routing()
