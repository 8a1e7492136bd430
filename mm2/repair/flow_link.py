"""Connections of `mm2 offsets` to both clusters of a configured flow, and the flow's plan."""

from __future__ import annotations

import os

from connect_runtime.base.timing import Clock
from mm2.client.offset_translator import FlowLink
from mm2.clusters import cluster_clients
from mm2.config import flow_plan, mirror_connector_keys
from mm2.config.flow_plan import FlowPlan, FlowSelection
from mm2.config.mm2_settings import ClusterSettings, Mm2Settings
from mm2.kafka.kafka_cluster import KafkaCluster
from mm2.topics.flow_config import Flow


def build_flow_link(settings: Mm2Settings, flow: Flow, *, purpose: str, clock: Clock) -> FlowLink:
    """Connect to both clusters of a flow for translation.

    `purpose` is the suffix of the `client.id`. Raises `FatalError` for invalid settings."""
    clients = settings.get_clients(flow)

    def cluster(listing: ClusterSettings, reading: ClusterSettings, alias: str) -> KafkaCluster:
        return KafkaCluster(
            cluster_clients.build_client_access(listing, alias),
            cluster_clients.build_client_access(reading, alias),
            client_id=f"mm2-{flow.name}-{purpose}",
            clock=clock,
        )

    return FlowLink(
        target=cluster(clients.target_admin, settings.clusters[flow.target], flow.target),
        source=cluster(clients.source_admin, clients.consumer, flow.source),
        source_alias=flow.source,
        target_alias=flow.target,
        policy=flow.policy,
        syncs_on_source=_are_syncs_on_source(settings, flow),
    )


def _are_syncs_on_source(settings: Mm2Settings, flow: Flow) -> bool:
    return (
        load_flow_plan(settings, flow).source_config.get(
            mirror_connector_keys.SYNCS_TOPIC_LOCATION, "source"
        )
        != "target"
    )


def load_flow_plan(settings: Mm2Settings, flow: Flow) -> FlowPlan:
    """Derive the effective configuration of a running flow. Raises the same errors as
    `flow_plan.plan_flows`."""
    choice = FlowSelection(names=(flow.name,))
    (found,) = flow_plan.plan_flows(settings, choice, environment=os.environ)
    return found
