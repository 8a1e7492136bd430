"""Creates the planner, the readiness checks and the `FailoverContext` with clients of the
configured clusters."""

from __future__ import annotations

import functools
import os
import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from connect_runtime.base.clock_and_deadline import Clock
from mm2.clusters import connect_group_state, flow_kafka_clients
from mm2.clusters.connect_group_state import ConnectGroupSnapshot
from mm2.clusters.flow_cluster_pair import FlowPair
from mm2.config import flow_connector_configs
from mm2.config.flow_connector_configs import FlowSelection
from mm2.config.mm2_settings import ClusterSettings, Mm2Settings
from mm2.copier.blocking_client import BlockingClient
from mm2.failover import (
    failover_context,
    flow_stop,
    position_translation,
    readiness_checks,
    unreplicated_records,
    writer_fencing,
)
from mm2.failover.failover_context import FailoverContext
from mm2.failover.failover_planner import FailoverPlanner
from mm2.failover.failover_request import ClusterIds
from mm2.failover.partition_thread_pool import ConnectClient, PartitionThreadPool, ReportProgress
from mm2.failover.readiness_checks import ReadinessChecks
from mm2.failover.unreplicated_records import UnreplicatedRecordFinder
from mm2.kafka import suggested_command_arguments
from mm2.replication import transactional_ids

FENCING_TIMEOUT_S = 60.0
SOURCE_DECLARED_LOST = "declared lost with --origin-lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverTimeouts:
    """Timeouts of a failover."""

    quiescence_s: float = 60.0
    """Time in seconds for which both clusters must have equal end offsets before the flow is
    stopped."""
    wait_s: float = 600.0
    """Maximum time in seconds to wait for applications to stop and for unavailable brokers."""
    snapshot_s: float = 60.0
    """Timeout for collecting one snapshot of both clusters, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverComponentFactory:
    """Builds the components of one flow's failover from the configuration."""

    settings: Mm2Settings
    pair: FlowPair
    clock: Clock
    timeouts: FailoverTimeouts = field(default_factory=FailoverTimeouts)
    lost: bool = False
    """True if the operator declared the origin lost, so that it is not queried."""
    report_progress: ReportProgress = lambda _: None
    """Prints progress of long operations."""

    @property
    def planner(self) -> FailoverPlanner:
        """Planner for failovers of the flow's groups."""
        finder = UnreplicatedRecordFinder(
            destination_pool=self._build_thread_pool(
                self._connect_target, f"counting on {self.pair.flow.target}", self.report_progress
            ),
            origin_pool=self._build_thread_pool(
                self._connect_source, f"counting on {self.pair.flow.source}", self.report_progress
            ),
        )
        return FailoverPlanner(
            clusters=self.pair,
            find_unreplicated=finder.find_unreplicated_records,
            clock=self.clock,
            timeout_s=self.timeouts.snapshot_s,
            lost_reason=SOURCE_DECLARED_LOST if self.lost else "",
            tools=suggested_command_arguments.build_cluster_commands(
                flow_kafka_clients.build_librdkafka_connection_settings(
                    self.settings.get_clients(self.pair.flow).target_admin, self.pair.flow.target
                )
            ),
            offset_sources=position_translation.find_offset_sync_locations(
                self.settings.flat.props, self.pair.flow, self.settings.flows
            ),
        )

    def fetch_cluster_ids(self, *, silent: bool) -> ClusterIds:
        """Fetch the Kafka cluster ids of the origin and the destination. If `silent` is True, the
        origin is known not to respond and is not queried.

        See `readiness_checks.fetch_cluster_ids`.
        """
        lost = self.lost or silent
        return readiness_checks.fetch_cluster_ids(
            self.pair, lost=lost, timeout_s=self.timeouts.snapshot_s
        )

    def build_readiness_checks(self) -> ReadinessChecks:
        """Build the readiness checks. Raises `SettingsError` and `ConfigError` if the worker's
        properties cannot be derived from the configuration."""
        flow, target = self.pair.flow, self.pair.target
        clients, props = self.settings.get_clients(flow), self._worker_props
        known_as = {
            "worker": self.settings.clusters[flow.target],
            "admin": clients.target_admin,
            "producer": clients.producer,
        }
        return ReadinessChecks(
            flow=flow.name,
            config_topic=props["config.storage.topic"],
            read_connect_group=lambda: self._read_connect_group(props),
            fetch_cluster_ids=lambda silent: self.fetch_cluster_ids(silent=silent),
            transactional_id=functools.partial(
                transactional_ids.format_transactional_id, flow.name
            ),
            find_denied_ids=lambda names: writer_fencing.find_denied_transactional_ids(
                self._connect_target, names
            ),
            connect_as_worker=lambda: target.create_authorized_operations_client(
                administering=False
            ),
            connect_as_admin=lambda: target.create_authorized_operations_client(administering=True),
            commands_by_login={
                name: suggested_command_arguments.build_cluster_commands(
                    flow_kafka_clients.build_librdkafka_connection_settings(each, flow.target)
                )
                for name, each in known_as.items()
            },
            hooks=self.settings.hooks,
            timeout_s=self.timeouts.snapshot_s,
        )

    @property
    def _worker_props(self) -> Mapping[str, str]:
        """Properties of the flow's Connect worker."""
        (plan,) = flow_connector_configs.plan_flows(
            self.settings,
            FlowSelection(names=(self.pair.flow.name,)),
            environment=os.environ,
        )
        return plan.worker_props

    def build_context(self, tell: Callable[[str], object]) -> FailoverContext:
        """Build the context of a failover. `tell` is the function that prints a line for the
        operator.

        Raises `SettingsError` and `ConfigError` if the worker's properties cannot be derived from
        the configuration.
        """
        props = self._worker_props
        return FailoverContext(
            clusters=self.pair,
            map_reader=self.pair.target.open_offset_map_reader(self.pair.flow.source),
            planner=self.planner,
            stop_connectors=lambda: flow_stop.stop_connectors(
                self.pair.target,
                props,
                clock=self.clock,
                timeout_s=failover_context.WRITE_TIMEOUT_S,
            ),
            list_running_tasks=lambda: flow_stop.list_running_tasks(
                self._read_connect_group(props)
            ),
            fence_partitions=lambda known, partitions: writer_fencing.fence_partitions(
                self.pair.flow,
                known,
                partitions,
                pool=self._build_thread_pool(self._connect_target, "fencing", tell),
                timeout_s=FENCING_TIMEOUT_S,
            ),
            export_records=lambda path, found, move: unreplicated_records.export_records(
                path,
                found,
                move=move,
                cluster=self.pair.flow.target,
                connect=self._connect_target,
                clock=self.clock,
            ),
            clock=self.clock,
            sleep=threading.Event().wait,
            print_line=tell,
            hooks=self.settings.hooks,
            quiescence_s=self.timeouts.quiescence_s,
            wait_s=self.timeouts.wait_s,
            file=self.settings.file,
        )

    def _connect_target(self) -> BlockingClient:
        flow = self.pair.flow
        clients = self.settings.get_clients(flow)
        return self._connect_to_cluster(clients.producer, flow.target)

    def _connect_source(self) -> BlockingClient:
        flow = self.pair.flow
        return self._connect_to_cluster(self.settings.get_clients(flow).consumer, flow.source)

    def _connect_to_cluster(self, cluster: ClusterSettings, alias: str) -> BlockingClient:
        client_id = f"mm2-{self.pair.flow.name}-failover"
        wire = flow_kafka_clients.build_protocol_client_connection_settings(
            cluster, alias, client_id=client_id
        )
        return BlockingClient(wire, clock=self.clock, random=random.SystemRandom())

    def _read_connect_group(self, props: Mapping[str, str]) -> ConnectGroupSnapshot:
        timeout_s = self.timeouts.snapshot_s
        return connect_group_state.read_connect_group(
            self.pair.target, props, clock=self.clock, timeout_s=timeout_s
        )

    def _build_thread_pool(
        self, connect: ConnectClient, doing: str, tell: ReportProgress
    ) -> PartitionThreadPool:
        return PartitionThreadPool(
            connect=connect, clock=self.clock, activity=doing, report_progress=tell
        )
