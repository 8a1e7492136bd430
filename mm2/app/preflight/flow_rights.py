"""Asks for the rights of every login of a flow, on all that the flow touches."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterable, Mapping

from connect_runtime.base import clock as base_clock
from connect_runtime.kafka_client import access as kafka_access
from mm2.app import connections, flow_plan
from mm2.app.settings import settings as app_settings
from mm2.cluster import kafka_rights
from mm2.connectors import operators
from mm2.core import commands, flows
from mm2.core.preflight import rights

CLIENT_ID = "mm2-check"


def accesses(
    settings: app_settings.Settings, flow: flows.Flow, plan: flow_plan.FlowPlan
) -> dict[rights.Client, kafka_access.Access]:
    """How each client of the flow comes in."""
    clients = settings.clients_of(flow)
    return {
        rights.Client.SOURCE_ADMIN: connections.access(clients.source_admin, flow.source),
        rights.Client.CONSUMER: connections.access(clients.consumer, flow.source),
        rights.Client.TARGET_ADMIN: connections.access(clients.target_admin, flow.target),
        rights.Client.PRODUCER: connections.access(clients.producer, flow.target),
        rights.Client.WORKER: plan.worker.access,
    }


def of_operators(
    found: Mapping[rights.Client, kafka_access.Access],
) -> dict[rights.Client, commands.Cluster]:
    """As whom people grant rights, and where."""
    return {client: operators.cluster(each) for client, each in found.items()}


def held(
    found: Mapping[rights.Client, kafka_access.Access],
    needed: Iterable[rights.Need],
    *,
    clock: base_clock.Clock,
    timeout_s: float,
) -> dict[rights.Resource, rights.Held]:
    """What brokers tell of each resource. Raises `RetriableError` and `FatalError`."""
    asked: dict[rights.Client, dict[rights.Kind, dict[str, None]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for need in needed:
        resource = need.resource
        asked[resource.client][resource.kind][resource.name] = None
    told: dict[rights.Resource, rights.Held] = {}
    for client, kinds in asked.items():
        with contextlib.closing(
            kafka_rights.KafkaRights(found[client], client_id=CLIENT_ID, clock=clock)
        ) as asking:
            answers = {
                (rights.Kind.TOPIC, name): each
                for name, each in asking.of_topics(
                    list(kinds[rights.Kind.TOPIC]), timeout_s
                ).items()
            }
            groups = asking.of_groups(list(kinds[rights.Kind.GROUP]), timeout_s)
            answers |= {(rights.Kind.GROUP, name): each for name, each in groups.items()}
            answers[rights.Kind.CLUSTER, ""] = asking.of_cluster(timeout_s)
        told |= {
            rights.Resource(client=client, kind=kind, name=name): each
            for (kind, name), each in answers.items()
        }
    return told
