"""MirrorSourceConnector beside Java's, from one source: topics, settings, ACLs, tasks.

Both mirror the same topics under other aliases; Java's on its worker, ours without one.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from mm2.kafka.acl_client import KafkaAclAdmin
from mm2.sandbox.sandbox_cluster import SandboxCluster
from mm2.topics import acl_sync_plan, task_assignment
from mm2.topics.acl_sync_plan import TopicAcl
from tests.support import cluster_access, eventually, kafka, source_connectors
from tests.support.connect_workers import Group, Kind
from tests.support.source_connectors import Running, Topics

pytestmark = [pytest.mark.full, pytest.mark.integration, pytest.mark.timeout(900)]

WAIT_S = 120.0
OURS, JAVAS = "ours", "javas"
NAME = "copies"
TASKS = "3"
TOPICS: Mapping[str, tuple[int, Mapping[str, str]]] = {
    "bed.plain": (8, {}),
    "bed.settings": (2, {"delete.retention.ms": "77", "compression.type": "zstd"}),
    "bed.compacted": (2, {"cleanup.policy": "compact", "segment.bytes": "2000000"}),
    "bed.excluded": (1, {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}),
    "bed.late-stamps": (1, {"message.timestamp.type": "CreateTime", "flush.ms": "9"}),
    "near-javas.back": (1, {}),
    "near-ours.back": (1, {}),
    "__bed": (1, {}),
}
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
BOTH = {"key.converter": BYTES, "value.converter": BYTES}
_WORKERS_OWN = {"task.class"}
"""What only a worker adds to a task's configuration."""


def right(name: str, operation: str, **more: str) -> TopicAcl:
    given = {"principal": "User:alice", "host": "*", "permission": acl_sync_plan.ALLOW, **more}
    return TopicAcl(name=name, operation=operation, **given)


RIGHTS = [
    right("bed.plain", "WRITE"),
    right("bed.plain", "ALL"),
    right("bed.plain", "ALL", permission=acl_sync_plan.DENY),
    right("bed.settings", "DESCRIBE", host="127.0.0.1"),
    right("bed.settings", "WRITE", permission=acl_sync_plan.DENY),
    right("bed", "READ", pattern="PREFIXED"),
    right("*", "READ"),
    right("near-javas.back", "READ"),
    right("near-ours.back", "READ"),
    right("__bed", "READ"),
    right("elsewhere", "READ"),
    right("not-there-yet.bed", "READ"),
]


class Bed:
    """One cluster with an authorizer, source and target of both."""

    def __init__(self, fort: SandboxCluster) -> None:
        self.client = fort.client_properties()
        self.topics = Topics(cluster_access.of(fort))
        self.rights = KafkaAclAdmin(
            cluster_access.of(fort), client_id="test", clock=cluster_access.CLOCK
        )
        for name, (partitions, settings) in TOPICS.items():
            kafka.create_topic(self.client, name, partitions=partitions, config=settings)
        assert self.rights.create_acls(RIGHTS, WAIT_S) == {}

    def close(self) -> None:
        self.rights.close()
        self.topics.__exit__()

    def props(self, whose: str, **more: str) -> dict[str, str]:
        wanted = ["bed\\..*", "near-.*", "__bed", "not-there-yet.*", "\\*"]
        return source_connectors.config(
            self.client,
            self.client,
            aliases=(f"far-{whose}", f"near-{whose}"),
            name=NAME,
            tasks_max=TASKS,
            topics=",".join(wanted),
            heartbeats_replication_enabled="false",
            **more,
        )

    def made(self, whose: str) -> dict[str, tuple[int, Mapping[str, str | None]]]:
        """Topics that one of them made: partitions and settings, by what `told` calls them."""
        prefix = f"far-{whose}."
        names = [each for each in self.topics.names() if each.startswith(prefix)]
        return {
            told(each.removeprefix(prefix), whose): (
                self.topics.partitions(each),
                self.topics.overrides(each),
            )
            for each in names
        }

    def given(self, whose: str) -> set[tuple[str, ...]]:
        """ACLs of its mirrors."""
        prefix = f"far-{whose}."
        return {
            (told(each.name.removeprefix(prefix), whose), *each.to_fields()[3:])
            for each in self.rights.list_topic_acls(WAIT_S)
            if each.name.startswith(prefix)
        }


@pytest.fixture
def bed(own_cluster: Callable[..., SandboxCluster]) -> Iterator[Bed]:
    made = Bed(own_cluster("bed", users=["alice"]))
    yield made
    made.close()


def told(text: str, whose: str) -> str:
    """What either of them says, without its name: `own`, and `other` for the other's."""
    other = JAVAS if whose == OURS else OURS
    return text.replace(whose, "own").replace(other, "other")


def shares(configs: list[Mapping[str, str]]) -> list[list[str]]:
    return [list(map(str, task_assignment.parse_partitions(each))) for each in configs]


def every(configs: list[Mapping[str, str]], whose: str) -> list[str]:
    """All partitions that are handed out, in order."""
    return sorted(told(each, whose) for share in shares(configs) for each in share)


def rest_of(config: Mapping[str, str], whose: str) -> dict[str, str]:
    """But for the share."""
    left = {task_assignment.PARTITIONS_KEY, *_WORKERS_OWN}
    return {key: told(value, whose) for key, value in config.items() if key not in left}


def test_both_make_the_same_of_the_same_source(
    bed: Bed, connect_group: Callable[..., Group]
) -> None:
    java = connect_group(settings=BOTH).start("java", Kind.JAVA)
    once = {"refresh_topics_enabled": "false"}  # or one would mirror what the other has made
    java.configure(NAME, bed.props(JAVAS, **once))

    def java_tasks() -> list[Mapping[str, str]]:
        answer: Any = java.get(f"/connectors/{NAME}/tasks")
        return [each["config"] for each in answer]

    eventually.eventually(lambda: len(java_tasks()) == int(TASKS), WAIT_S, java.log_text)
    with Running(bed.props(OURS, **once)) as ours:
        same_tasks(ours.publish(), java_tasks())
        same_topics(bed)
        same_topics_after_changes(bed)
        same_rights(bed)


def same_tasks(published: list[Mapping[str, str]], javas: list[Mapping[str, str]]) -> None:
    """The same partitions, as many for each, and nothing else that differs."""
    assert every(published, OURS) == every(javas, JAVAS)
    sizes = [[len(share) for share in shares(each)] for each in (published, javas)]
    assert sizes == [[5, 5, 5], [5, 5, 5]]
    for one, other in zip(published, javas, strict=True):
        assert rest_of(one, OURS) == rest_of(other, JAVAS)


def same_topics(bed: Bed) -> None:
    """With their settings, and the topics that each made for itself."""
    eventually.eventually(
        lambda: bed.made(OURS) == bed.made(JAVAS), WAIT_S, lambda: both(bed), interval_s=0.5
    )
    found = bed.made(OURS)
    bedded = {name for name in TOPICS if name.startswith("bed.")}
    assert set(found) == bedded | {"near-other.back"}
    assert found["bed.plain"] == (8, {})
    assert found["bed.excluded"] == (1, {})
    assert found["bed.settings"] == (2, dict(TOPICS["bed.settings"][1]))
    syncs = [
        bed.topics.overrides(f"mm2-offset-syncs.near-{whose}.internal") for whose in (OURS, JAVAS)
    ]
    assert syncs == [{"cleanup.policy": "compact"}] * 2


def same_topics_after_changes(bed: Bed) -> None:
    """Settings that change at the source are followed, those that only mirrors have are not."""
    bed.topics.alter("bed.settings", "compression.type", delete_retention_ms="78")
    bed.topics.alter("bed.plain", cleanup_policy="compact")
    bed.topics.alter("far-ours.bed.compacted", segment_bytes="3000000", flush_ms="5")
    bed.topics.alter("far-javas.bed.compacted", segment_bytes="3000000", flush_ms="5")
    changed = (2, {"delete.retention.ms": "78"})
    eventually.eventually(
        lambda: (
            bed.made(OURS)["bed.settings"] == changed
            and bed.made(OURS)["bed.plain"] == (8, {"cleanup.policy": "compact"})
            and bed.made(OURS)["bed.compacted"] == (2, dict(TOPICS["bed.compacted"][1]))
            and bed.made(OURS) == bed.made(JAVAS)
        ),
        WAIT_S,
        lambda: both(bed),
        interval_s=0.5,
    )


def both(bed: Bed) -> str:
    return f"{bed.made(OURS)} {bed.made(JAVAS)}"


def same_rights(bed: Bed) -> None:
    """ACLs at first, and when there are more."""

    def same() -> bool:
        return len(bed.given(OURS)) >= 5 and bed.given(OURS) == read_access(bed.given(JAVAS))

    def all_rights() -> str:
        return f"{sorted(bed.given(OURS))} {sorted(bed.given(JAVAS))}"

    eventually.eventually(same, WAIT_S, all_rights, interval_s=0.5)
    more = right("bed.compacted", "DESCRIBE")
    assert bed.rights.create_acls([more], WAIT_S) == {}
    eventually.eventually(
        lambda: ("bed.compacted", *more.to_fields()[3:]) in bed.given(JAVAS) and same(),
        WAIT_S,
        all_rights,
        interval_s=0.5,
    )


def read_access(given: set[tuple[str, ...]]) -> set[tuple[str, ...]]:
    """What ours copies of these: read access to single topics that are there."""
    copied = {"READ": ("READ",), "DESCRIBE": ("DESCRIBE",), "ALL": ("READ", "DESCRIBE")}
    return {
        (topic, principal, host, each, permission)
        for topic, principal, host, operation, permission in given
        if topic in TOPICS or topic == "near-other.back"
        for each in copied.get(operation, ())
    }


def test_what_java_handed_out_stays_where_it_is_and_java_reads_what_we_hand_out(
    bed: Bed, connect_group: Callable[..., Group]
) -> None:
    """A flow that goes from one to the other: the task configurations of either are read by the
    other's."""
    java = connect_group(settings=BOTH).start("java", Kind.JAVA)
    props = bed.props(JAVAS, refresh_topics_enabled="false", sync_topic_acls_enabled="false")
    java.configure(NAME, props)

    def java_tasks() -> list[Mapping[str, str]]:
        answer: Any = java.get(f"/connectors/{NAME}/tasks")
        return [each["config"] for each in answer]

    eventually.eventually(lambda: java.runs(NAME, tasks=3), WAIT_S, java.log_text)
    given = java_tasks()
    with Running(props, published=given) as ours:
        taken = ours.publish()
        without = [
            {key: value for key, value in each.items() if key not in _WORKERS_OWN} for each in given
        ]
        assert taken == without, "not one of them has to be told anything"
        kafka.create_topic(bed.client, "bed.later", partitions=2)
    again = Running({**props, "start": "latest"}, published=given)
    with again:
        later = again.publish()
        new = ["bed.later-0", "bed.later-1"]
        assert every(later, JAVAS) == sorted([*every(given, JAVAS), *new])
        assert all(
            set(before) <= set(after)
            for before, after in zip(shares(given), shares(later), strict=True)
        )
        named = collections.Counter(
            name
            for each in later
            for name in each.get(task_assignment.ADDED_PARTITIONS_KEY, "").split(",")
            if name
        )
        assert named == dict.fromkeys(new, 1)
