"""From a flow of the file to what translates its offsets."""

from __future__ import annotations

import os

from connect_runtime.base import clock as base_clock
from mm2.app import connections, flow_plan
from mm2.app.settings import settings as app_settings
from mm2.client import flow_link
from mm2.cluster import kafka_cluster
from mm2.core import flows
from mm2.core.configs import connector_keys


def link(
    settings: app_settings.Settings, flow: flows.Flow, *, purpose: str, clock: base_clock.Clock
) -> flow_link.Link:
    """`purpose` is the end of our `client.id`. Raises `FatalError` for settings that cannot be
    honoured."""
    clients = settings.clients_of(flow)

    def cluster(
        listing: app_settings.ClusterSettings, reading: app_settings.ClusterSettings, alias: str
    ) -> kafka_cluster.KafkaCluster:
        return kafka_cluster.KafkaCluster(
            connections.access(listing, alias),
            connections.access(reading, alias),
            client_id=f"mm2-{flow.name}-{purpose}",
            clock=clock,
        )

    return flow_link.Link(
        here=cluster(clients.target_admin, settings.clusters[flow.target], flow.target),
        there=cluster(clients.source_admin, clients.consumer, flow.source),
        remote_alias=flow.source,
        alias=flow.target,
        policy=flow.policy,
        syncs_on_source=_syncs_on_source(settings, flow),
    )


def _syncs_on_source(settings: app_settings.Settings, flow: flows.Flow) -> bool:
    return (
        plan(settings, flow).source.get(connector_keys.SYNCS_TOPIC_LOCATION, "source") != "target"
    )


def plan(settings: app_settings.Settings, flow: flows.Flow) -> flow_plan.FlowPlan:
    """What the flow runs with. Raises as `flow_plan.plans`."""
    choice = flow_plan.Choice(names=(flow.name,))
    (found,) = flow_plan.plans(settings, choice, environment=os.environ)
    return found
