"""Which rights a flow needs, of which login, for what; and what it means that one is missing.

What needs them is told beside each: `mm2/connectors` and `pipeline` ask for no more.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from mm2.core import commands
from mm2.core.preflight import findings


class Client(enum.Enum):
    """Who asks; the value is how people know it."""

    SOURCE_ADMIN = "source admin"
    CONSUMER = "consumer"
    TARGET_ADMIN = "target admin"
    PRODUCER = "producer"
    WORKER = "worker"

    @property
    def on_source(self) -> bool:
        return self in (Client.SOURCE_ADMIN, Client.CONSUMER)


class Kind(enum.Enum):
    TOPIC = "topic"
    GROUP = "group"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A topic or group of this name, as seen by a client; the cluster has none."""

    client: Client
    kind: Kind
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """`operations` in Kafka's words. `means`: what does not happen without them.

    `only_missing`: just where the topic does not exist yet (to create it).
    """

    resource: Resource
    operations: frozenset[str]
    means: str
    weight: findings.Weight = findings.Weight.FAILED
    only_missing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What brokers told; `operations` None: nothing. `exists`: of topics."""

    operations: frozenset[str] | None
    exists: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """A topic that the flow keeps for itself: `maker` makes it, and looks at its settings where it
    is `judged`; `user` writes and reads it. `means`: what comes of it when that is not allowed."""

    name: str
    maker: Client
    user: Client
    judged: bool = True
    means: str = "the flow cannot keep what it must not forget, and does not begin"
    weight: findings.Weight = findings.Weight.FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a flow will do; one for heartbeats alone mirrors nothing, and reads no settings of
    brokers. `topics` are those of the source that it mirrors, `mirrors` theirs on
    the target; `groups` some of the source's, where positions are written for them.

    `read_too`: topics of a flow that leads back, where mirrors keep their names. `seen_groups`: are
    any of the source's seen, so that checkpoints can be written? None: none are to be.
    """

    topics: tuple[str, ...]
    mirrors: tuple[str, ...]
    own: tuple[Own, ...]
    worker_group: str
    read_too: tuple[Resource, ...] = ()
    seen_groups: bool | None = None
    synced_groups: tuple[str, ...] = ()
    sync_acls: bool = False
    syncs_configs: bool = True
    reads_brokers: bool = True


def needs(wanted: Wanted) -> list[Need]:
    """In the order in which they are told."""
    return [
        *_of_topics(wanted.topics),
        *_of_mirrors(wanted),
        *(need for own in wanted.own for need in _of_own(own)),
        *(
            _need(each.client, each.kind, each.name, {"READ"}, means=_BACK)
            for each in wanted.read_too
        ),
        *_of_groups(wanted),
        *_of_clusters(wanted),
    ]


_BACK = "a flow that leads back under the same names is not seen: records may go in circles"


def _of_topics(topics: Iterable[str]) -> Iterator[Need]:
    for name in topics:
        yield _need(Client.CONSUMER, Kind.TOPIC, name, {"READ"}, means="its records cannot be read")
        yield _need(
            Client.SOURCE_ADMIN,
            Kind.TOPIC,
            name,
            {"DESCRIBE_CONFIGS"},
            means="its settings are not mirrored: retention and cleanup of the mirror may differ",
            weight=findings.Weight.WARNING,
        )


def _of_mirrors(wanted: Wanted) -> Iterator[Need]:
    for name in wanted.mirrors:
        yield _need(
            Client.PRODUCER,
            Kind.TOPIC,
            name,
            {"WRITE", "READ"},
            means="nothing is copied: records are written there, and its end is read to go on",
        )
        yield _need(
            Client.TARGET_ADMIN,
            Kind.TOPIC,
            name,
            {"CREATE"},
            means="the mirror topic cannot be made",
            only_missing=True,
        )
        follows = {"ALTER", "DESCRIBE_CONFIGS"}
        if wanted.syncs_configs:
            follows.add("ALTER_CONFIGS")
        yield _need(
            Client.TARGET_ADMIN,
            Kind.TOPIC,
            name,
            follows,
            means="it does not grow with its source, or follow its settings",
            weight=findings.Weight.WARNING,
        )


def _of_own(own: Own) -> Iterator[Need]:
    for operations in ({"READ", "WRITE"}, {"CREATE"}):
        yield _need(
            own.maker if "CREATE" in operations else own.user,
            Kind.TOPIC,
            own.name,
            operations,
            means=own.means,
            weight=own.weight,
            only_missing="CREATE" in operations,
        )
    if not own.judged:
        return
    yield _need(
        own.maker,
        Kind.TOPIC,
        own.name,
        {"DESCRIBE_CONFIGS"},
        means="nobody can see whether the topic is compacted; what it holds may get lost by age",
        weight=findings.Weight.WARNING,
    )


def _of_groups(wanted: Wanted) -> Iterator[Need]:
    yield _need(
        Client.WORKER,
        Kind.GROUP,
        wanted.worker_group,
        {"READ", "DESCRIBE"},
        means="the flow's worker cannot join its group, and does not begin",
    )
    if wanted.seen_groups is False:
        yield _need(
            Client.SOURCE_ADMIN,
            Kind.GROUP,
            "*",
            {"DESCRIBE"},
            means="no consumer group is seen, so no checkpoints are written",
            weight=findings.Weight.WARNING,
        )
    for name in wanted.synced_groups:
        yield _need(
            Client.TARGET_ADMIN,
            Kind.GROUP,
            name,
            {"READ", "DESCRIBE"},
            means="the group's positions are not written on the target",
            weight=findings.Weight.WARNING,
        )


def _of_clusters(wanted: Wanted) -> Iterator[Need]:
    if wanted.reads_brokers:
        yield _need(
            Client.TARGET_ADMIN,
            Kind.CLUSTER,
            "",
            {"DESCRIBE_CONFIGS"},
            means="brokers do not tell how long they remember a producer (24 hours are assumed), "
            "nor the settings of new topics",
            weight=findings.Weight.WARNING,
        )
    if wanted.sync_acls:
        means = "rights on topics are not mirrored (sync.topic.acls.enabled)"
        warning = findings.Weight.WARNING
        yield _need(
            Client.SOURCE_ADMIN, Kind.CLUSTER, "", {"DESCRIBE"}, means=means, weight=warning
        )
        yield _need(
            Client.TARGET_ADMIN,
            Kind.CLUSTER,
            "",
            {"DESCRIBE", "ALTER"},
            means=means,
            weight=warning,
        )


def _need(
    client: Client,
    kind: Kind,
    name: str,
    operations: Collection[str],
    *,
    means: str,
    weight: findings.Weight = findings.Weight.FAILED,
    only_missing: bool = False,
) -> Need:
    return Need(
        resource=Resource(client=client, kind=kind, name=name),
        operations=frozenset(operations),
        means=means,
        weight=weight,
        only_missing=only_missing,
    )


@dataclass(frozen=True, slots=True)
class _Lack:
    """What several resources lack alike."""

    client: Client
    kind: Kind
    operations: frozenset[str]
    means: str
    weight: findings.Weight


_NAMES_TOLD = 3
_NAMES_TYPED = 20


Tried = Mapping[tuple[Resource, str], bool]
"""What was tried, by resource and operation, and whether it was allowed."""


def missing(
    flow: str,
    wanted: Iterable[Need],
    held: Mapping[Resource, Held],
    *,
    tried: Tried,
    operators: Mapping[Client, commands.Cluster],
) -> Iterator[findings.Finding]:
    """One finding for all things that lack the same. What was not told is not missing.

    What was `tried` counts more than what brokers told: the right to create topics may be the
    cluster's, and of a cluster's rights they tell only those who may DESCRIBE it. `operators` name
    each client's cluster and principal for the commands.
    """
    lacks: dict[_Lack, list[str]] = defaultdict(list)
    for need in wanted:
        lacking = _lacking(need, held.get(need.resource), tried)
        if lacking:
            resource = need.resource
            lack = _Lack(resource.client, resource.kind, lacking, need.means, need.weight)
            lacks[lack].append(resource.name)
    for lack, names in lacks.items():
        yield _finding(flow, lack, names, operator=operators[lack.client])


def _lacking(need: Need, found: Held | None, tried: Tried) -> frozenset[str]:
    if need.only_missing and (found is None or found.exists):
        return frozenset()
    told = None if found is None else found.operations
    return frozenset(
        operation
        for operation in need.operations
        if not tried.get((need.resource, operation), told is None or operation in told)
    )


def _finding(
    flow: str, lack: _Lack, names: list[str], *, operator: commands.Cluster
) -> findings.Finding:
    words = sorted(lack.operations)
    spelled = tuple(word.title().replace("_", "") for word in words)
    match lack.kind:
        case Kind.CLUSTER:
            where = "the cluster"
            command = operator.allow_cluster(*spelled)
        case Kind.GROUP:
            where = _told("group", names)
            command = operator.allow_named_groups(names[:_NAMES_TYPED], *spelled)
        case Kind.TOPIC:
            where = _told("topic", names)
            command = operator.allow_topics(names[:_NAMES_TYPED], *spelled)
    side = "source" if lack.client.on_source else "target"
    return findings.Finding(
        subject=flow,
        word=findings.Word.RIGHTS,
        weight=lack.weight,
        code=f"right-{lack.kind.value}-{'-'.join(words).lower().replace('_', '-')}",
        text=f"{operator.principal} ({lack.client.value}) may not {' nor '.join(words)} {where} "
        f"on the {side}",
        means=lack.means,
        mend=f"grant {' and '.join(words)} to {operator.principal}",
        command=command,
    )


def _told(kind: str, names: list[str]) -> str:
    if len(names) == 1:
        return f"{kind} {names[0]}"
    more = len(names) - _NAMES_TOLD
    told = ", ".join(names[:_NAMES_TOLD])
    return f"{len(names)} {kind}s ({told}{f' and {more} more' if more > 0 else ''})"
