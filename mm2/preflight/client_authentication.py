"""Authentication and authorization of a flow's clients: lists the distinct logins (addresses and
credentials), and fetches each client's authorized operations.

Identical logins to one cluster are checked once.
"""

from __future__ import annotations

import collections
import contextlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from mm2.clusters import flow_kafka_clients
from mm2.config.flow_connector_configs import FlowPlan
from mm2.config.mm2_settings import Mm2Settings
from mm2.kafka import suggested_command_arguments
from mm2.kafka.authorized_operations import AuthorizedOperationsClient
from mm2.kafka.kafka_client_interfaces import AuthorizedOperations
from mm2.preflight.required_acls import ClientResource, FlowClient, RequiredAcl, ResourceKind
from mm2.suggested_commands import ClusterCommands
from mm2.topics.flow_config import Flow


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLogin:
    """A login to a cluster, with the clients that use it ("consumer of east->west"). An empty list
    of clients means all clients."""

    alias: str
    access: KafkaClusterAccess
    clients: tuple[str, ...]

    def equals_login(self, other: ClusterLogin) -> bool:
        """Return True if both logins use the same addresses and credentials."""
        mine, theirs = self.access, other.access
        return (self.alias, mine.bootstrap, mine.security) == (
            other.alias,
            theirs.bootstrap,
            theirs.security,
        )


ClientAccesses = Mapping[FlowClient, KafkaClusterAccess]


def list_logins(accesses_of: Mapping[str, tuple[Flow, ClientAccesses]]) -> list[ClusterLogin]:
    """List the distinct logins of all flows, in the order of the flows."""
    found: list[ClusterLogin] = []
    for flow, accesses in accesses_of.values():
        for client, access in accesses.items():
            alias = flow.source if client.connects_to_source else flow.target
            new = ClusterLogin(
                alias=alias, access=access, clients=(f"{client.value} of {flow.name}",)
            )
            place = next((i for i, each in enumerate(found) if each.equals_login(new)), None)
            if place is None:
                found.append(new)
            else:
                known = found[place]
                found[place] = replace(known, clients=known.clients + new.clients)
    ways = collections.Counter(each.alias for each in found)
    return [each if ways[each.alias] > 1 else replace(each, clients=()) for each in found]


CHECK_CLIENT_ID = "mm2-check"


def build_cluster_access_by_client(
    settings: Mm2Settings, flow: Flow, plan: FlowPlan
) -> dict[FlowClient, KafkaClusterAccess]:
    """Build the connection settings of each client of the flow."""
    clients = settings.get_clients(flow)
    return {
        FlowClient.SOURCE_ADMIN: flow_kafka_clients.build_librdkafka_connection_settings(
            clients.source_admin, flow.source
        ),
        FlowClient.CONSUMER: flow_kafka_clients.build_librdkafka_connection_settings(
            clients.consumer, flow.source
        ),
        FlowClient.TARGET_ADMIN: flow_kafka_clients.build_librdkafka_connection_settings(
            clients.target_admin, flow.target
        ),
        FlowClient.PRODUCER: flow_kafka_clients.build_librdkafka_connection_settings(
            clients.producer, flow.target
        ),
        FlowClient.WORKER: plan.worker.access,
    }


def create_cluster_commands(
    found: Mapping[FlowClient, KafkaClusterAccess],
) -> dict[FlowClient, ClusterCommands]:
    """Create a `ClusterCommands` for each client of a flow. It builds the commands that findings
    suggest, for the client's cluster and principal."""
    return {
        client: suggested_command_arguments.build_cluster_commands(each)
        for client, each in found.items()
    }


def fetch_authorized_operations(
    found: Mapping[FlowClient, KafkaClusterAccess],
    needed: Iterable[RequiredAcl],
    *,
    clock: Clock,
    timeout_s: float,
) -> dict[ClientResource, AuthorizedOperations]:
    """Fetch each client's authorized operations on each resource.

    Raises `RetriableError` and `FatalError`."""
    asked: dict[FlowClient, dict[ResourceKind, dict[str, None]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for need in needed:
        resource = need.resource
        asked[resource.client][resource.kind][resource.name] = None
    told: dict[ClientResource, AuthorizedOperations] = {}
    for client, kinds in asked.items():
        with contextlib.closing(
            AuthorizedOperationsClient(found[client], client_id=CHECK_CLIENT_ID, clock=clock)
        ) as asking:
            answers = {
                (ResourceKind.TOPIC, name): each
                for name, each in asking.read_topic_operations(
                    list(kinds[ResourceKind.TOPIC]), timeout_s
                ).items()
            }
            groups = asking.read_group_operations(list(kinds[ResourceKind.GROUP]), timeout_s)
            answers |= {(ResourceKind.GROUP, name): each for name, each in groups.items()}
            answers[ResourceKind.CLUSTER, ""] = asking.read_cluster_operations(timeout_s)
        told |= {
            ClientResource(client=client, kind=kind, name=name): each
            for (kind, name), each in answers.items()
        }
    return told
