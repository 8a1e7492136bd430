"""ACLs that each client of a flow needs, and findings about missing ACLs.

The ACLs cover all requests that the flow's connectors and copy processes send. The
requests need no other authorization.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from mm2.kafka.kafka_client_interfaces import AuthorizedOperations
from mm2.preflight.check_report import CheckArea, CheckFinding, CheckSeverity
from mm2.suggested_commands import ClusterCommands


class FlowClient(enum.Enum):
    """A client of a flow. The value is the client's name in log and error messages."""

    SOURCE_ADMIN = "source admin"
    CONSUMER = "consumer"
    TARGET_ADMIN = "target admin"
    PRODUCER = "producer"
    WORKER = "worker"

    @property
    def connects_to_source(self) -> bool:
        """True if the client connects to the source cluster."""
        return self in (FlowClient.SOURCE_ADMIN, FlowClient.CONSUMER)


class ResourceKind(enum.Enum):
    """Type of a Kafka resource."""

    TOPIC = "topic"
    GROUP = "group"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientResource:
    """A topic, group or cluster (without a name) that a client uses."""

    client: FlowClient
    kind: ResourceKind
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredAcl:
    """Operations that a client needs on a resource."""

    resource: ClientResource
    operations: frozenset[str]
    """Kafka names of the operations."""
    effect: str
    """Effect of missing operations."""
    severity: CheckSeverity = CheckSeverity.FAILED
    only_missing: bool = False
    """True if the operations are needed only to create a topic that does not exist yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopicAcls:
    """Clients of a flow that need access to an internal topic."""

    name: str
    creator: FlowClient
    """Client that creates the topic. If `checks_config` is set, it also reads the topic's
    configuration."""
    user: FlowClient
    """Client that writes and reads the topic."""
    checks_config: bool = True
    effect: str = "the flow cannot store its state and does not start"
    """Effect of missing access."""
    severity: CheckSeverity = CheckSeverity.FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowResourceUsage:
    """Topics, groups and optional operations of a flow, from which its required ACLs are derived.
    A flow that only emits heartbeats does not replicate topics."""

    topics: tuple[str, ...]
    """Source topics that the flow replicates."""
    mirrors: tuple[str, ...]
    """Mirror topics of the replicated source topics."""
    internal_topics: tuple[InternalTopicAcls, ...]
    worker_group: str
    reverse_flow_topics: tuple[ClientResource, ...] = ()
    """Topics of the reverse flow that this flow reads. Used only if mirror topics have the same
    names as their source topics."""
    has_visible_groups: bool | None = None
    """True if any source group is visible; None if no checkpoints are written."""
    synced_groups: tuple[str, ...] = ()
    """Source groups whose offsets are synced to the target."""
    sync_acls: bool = False
    syncs_configs: bool = True
    reads_brokers: bool = True


def list_required_acls(wanted: FlowResourceUsage) -> list[RequiredAcl]:
    """List the required ACLs in the order in which missing ACLs are reported."""
    return [
        *_require_topic_acls(wanted.topics),
        *_require_mirror_acls(wanted),
        *(need for own in wanted.internal_topics for need in _require_internal_topic_acls(own)),
        *(
            _build_required_acl(
                each.client, each.kind, each.name, {"READ"}, effect=_REVERSE_FLOW_NOT_SEEN
            )
            for each in wanted.reverse_flow_topics
        ),
        *_require_group_acls(wanted),
        *_require_cluster_acls(wanted),
    ]


_REVERSE_FLOW_NOT_SEEN = (
    "a reverse flow with the same topic names is not detected, so records may be replicated in a "
    "loop"
)


def _require_topic_acls(topics: Iterable[str]) -> Iterator[RequiredAcl]:
    for name in topics:
        yield _build_required_acl(
            FlowClient.CONSUMER,
            ResourceKind.TOPIC,
            name,
            {"READ"},
            effect="records of the topic cannot be read",
        )
        yield _build_required_acl(
            FlowClient.SOURCE_ADMIN,
            ResourceKind.TOPIC,
            name,
            {"DESCRIBE_CONFIGS"},
            effect=(
                "the topic's configuration is not synced: its mirror topic may have a different "
                "retention and cleanup policy"
            ),
            severity=CheckSeverity.WARNING,
        )


def _require_mirror_acls(wanted: FlowResourceUsage) -> Iterator[RequiredAcl]:
    for name in wanted.mirrors:
        yield _build_required_acl(
            FlowClient.PRODUCER,
            ResourceKind.TOPIC,
            name,
            {"WRITE", "READ"},
            effect=(
                "nothing is replicated: mm2 needs WRITE to produce to the mirror topic, and READ "
                "to read its end and find where to resume"
            ),
        )
        yield _build_required_acl(
            FlowClient.TARGET_ADMIN,
            ResourceKind.TOPIC,
            name,
            {"CREATE"},
            effect="the mirror topic cannot be created",
            only_missing=True,
        )
        follows = {"ALTER", "DESCRIBE_CONFIGS"}
        if wanted.syncs_configs:
            follows.add("ALTER_CONFIGS")
        yield _build_required_acl(
            FlowClient.TARGET_ADMIN,
            ResourceKind.TOPIC,
            name,
            follows,
            effect="changes of the source topic's partitions and configuration are not applied "
            "to the mirror topic",
            severity=CheckSeverity.WARNING,
        )


def _require_internal_topic_acls(own: InternalTopicAcls) -> Iterator[RequiredAcl]:
    for operations in ({"READ", "WRITE"}, {"CREATE"}):
        yield _build_required_acl(
            own.creator if "CREATE" in operations else own.user,
            ResourceKind.TOPIC,
            own.name,
            operations,
            effect=own.effect,
            severity=own.severity,
            only_missing="CREATE" in operations,
        )
    if not own.checks_config:
        return
    yield _build_required_acl(
        own.creator,
        ResourceKind.TOPIC,
        own.name,
        {"DESCRIBE_CONFIGS"},
        effect="the topic's cleanup policy is unknown: without compaction its records expire",
        severity=CheckSeverity.WARNING,
    )


def _require_group_acls(wanted: FlowResourceUsage) -> Iterator[RequiredAcl]:
    yield _build_required_acl(
        FlowClient.WORKER,
        ResourceKind.GROUP,
        wanted.worker_group,
        {"READ", "DESCRIBE"},
        effect="the flow's worker cannot join its group, so the flow does not start",
    )
    if wanted.has_visible_groups is False:
        yield _build_required_acl(
            FlowClient.SOURCE_ADMIN,
            ResourceKind.GROUP,
            "*",
            {"DESCRIBE"},
            effect="no consumer group is visible, so no checkpoints are written",
            severity=CheckSeverity.WARNING,
        )
    for name in wanted.synced_groups:
        yield _build_required_acl(
            FlowClient.TARGET_ADMIN,
            ResourceKind.GROUP,
            name,
            {"READ", "DESCRIBE"},
            effect="the group's offsets are not synced to the target",
            severity=CheckSeverity.WARNING,
        )


def _require_cluster_acls(wanted: FlowResourceUsage) -> Iterator[RequiredAcl]:
    if wanted.reads_brokers:
        yield _build_required_acl(
            FlowClient.TARGET_ADMIN,
            ResourceKind.CLUSTER,
            "",
            {"DESCRIBE_CONFIGS"},
            effect=(
                "brokers do not report their producer id expiration (24 hours are assumed) or the "
                "defaults of new topics"
            ),
            severity=CheckSeverity.WARNING,
        )
    if wanted.sync_acls:
        effect = "topic ACLs are not synced (sync.topic.acls.enabled)"
        warning = CheckSeverity.WARNING
        yield _build_required_acl(
            FlowClient.SOURCE_ADMIN,
            ResourceKind.CLUSTER,
            "",
            {"DESCRIBE"},
            effect=effect,
            severity=warning,
        )
        yield _build_required_acl(
            FlowClient.TARGET_ADMIN,
            ResourceKind.CLUSTER,
            "",
            {"DESCRIBE", "ALTER"},
            effect=effect,
            severity=warning,
        )


def _build_required_acl(
    client: FlowClient,
    kind: ResourceKind,
    name: str,
    operations: Collection[str],
    *,
    effect: str,
    severity: CheckSeverity = CheckSeverity.FAILED,
    only_missing: bool = False,
) -> RequiredAcl:
    return RequiredAcl(
        resource=ClientResource(client=client, kind=kind, name=name),
        operations=frozenset(operations),
        effect=effect,
        severity=severity,
        only_missing=only_missing,
    )


@dataclass(frozen=True, slots=True)
class _MissingAcl:
    """Operations that a client is not authorized to perform on several resources, for the same
    reason; reported as one finding."""

    client: FlowClient
    kind: ResourceKind
    operations: frozenset[str]
    effect: str
    severity: CheckSeverity


_MAX_NAMES_SHOWN = 3
_MAX_NAMES_IN_COMMAND = 20


TriedOperations = Mapping[tuple[ClientResource, str], bool]
"""Results of attempted operations by resource and operation: True if the operation was allowed."""


def find_missing_acls(
    flow: str,
    wanted: Iterable[RequiredAcl],
    held: Mapping[ClientResource, AuthorizedOperations],
    *,
    tried: TriedOperations,
    operators: Mapping[FlowClient, ClusterCommands],
) -> Iterator[CheckFinding]:
    """Yield one finding for all resources that lack the same operations.

    Operations that the brokers did not report are not considered missing. A result in `tried` takes
    precedence over the brokers' report, because authorization to create topics may be granted on
    the cluster, and brokers report cluster operations only to clients that may DESCRIBE the
    cluster. `operators` contains each client's cluster and principal for the commands.
    """
    lacks: dict[_MissingAcl, list[str]] = defaultdict(list)
    for need in wanted:
        lacking = _list_missing_operations(need, held.get(need.resource), tried)
        if lacking:
            resource = need.resource
            lack = _MissingAcl(resource.client, resource.kind, lacking, need.effect, need.severity)
            lacks[lack].append(resource.name)
    for lack, names in lacks.items():
        yield _build_finding(flow, lack, names, operator=operators[lack.client])


def _list_missing_operations(
    need: RequiredAcl, found: AuthorizedOperations | None, tried: TriedOperations
) -> frozenset[str]:
    if need.only_missing and (found is None or found.exists):
        return frozenset()
    told = None if found is None else found.operations
    return frozenset(
        operation
        for operation in need.operations
        if not tried.get((need.resource, operation), told is None or operation in told)
    )


def _build_finding(
    flow: str, lack: _MissingAcl, names: list[str], *, operator: ClusterCommands
) -> CheckFinding:
    words = sorted(lack.operations)
    spelled = tuple(word.title().replace("_", "") for word in words)
    match lack.kind:
        case ResourceKind.CLUSTER:
            where = "the cluster"
            command = operator.build_allow_cluster_command(*spelled)
        case ResourceKind.GROUP:
            where = _format_names("group", names)
            command = operator.build_allow_groups_command(names[:_MAX_NAMES_IN_COMMAND], *spelled)
        case ResourceKind.TOPIC:
            where = _format_names("topic", names)
            command = operator.build_allow_topics_command(names[:_MAX_NAMES_IN_COMMAND], *spelled)
    side = "source" if lack.client.connects_to_source else "target"
    return CheckFinding(
        subject=flow,
        area=CheckArea.RIGHTS,
        severity=lack.severity,
        code=f"right-{lack.kind.value}-{'-'.join(words).lower().replace('_', '-')}",
        text=f"{operator.principal} ({lack.client.value}) is not authorized to "
        f"{' or '.join(words)} {where} on the {side}",
        effect=lack.effect,
        fix=f"grant {' and '.join(words)} to {operator.principal}",
        command=command,
    )


def _format_names(kind: str, names: list[str]) -> str:
    if len(names) == 1:
        return f"{kind} {names[0]}"
    more = len(names) - _MAX_NAMES_SHOWN
    told = ", ".join(names[:_MAX_NAMES_SHOWN])
    return f"{len(names)} {kind}s ({told}{f' and {more} more' if more > 0 else ''})"
