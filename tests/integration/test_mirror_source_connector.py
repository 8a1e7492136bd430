"""MirrorSourceConnector on real brokers: what it makes there, and what it hands to tasks.

But for the last test its tasks are not run: what they copy is tested elsewhere. Beside Java's
connector: tests/interop.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from connect_runtime.base.errors import FatalError
from mm2.kafka.acl_client import KafkaAclAdmin
from mm2.sandbox.sandbox_cluster import SandboxCluster
from mm2.topics import acl_sync_plan
from mm2.topics.acl_sync_plan import TopicAcl
from tests.support import cluster_access, eventually, kafka, source_connectors
from tests.support.connect_workers import Kind
from tests.support.kafka import Outgoing
from tests.support.source_connectors import Running, Topics

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

WAIT_S = 60.0
NAME = "copies"
_UNIQUE = itertools.count()


class Flow:
    """From `west` to `east`, with topics of its own."""

    def __init__(self, west: SandboxCluster, east: SandboxCluster, name: str) -> None:
        self.name = name
        self.aliases = (f"{name}-far", f"{name}-near")
        self.clients = (west.client_properties(), east.client_properties())
        self.source = Topics(cluster_access.of(west))
        self.target = Topics(cluster_access.of(east))

    def topic(self, stem: str, partitions: int, **settings: str) -> str:
        given = {key.replace("_", "."): value for key, value in settings.items()}
        return kafka.create_topic(
            self.clients[0], f"{self.name}-{stem}", partitions=partitions, config=given
        )

    def mirror(self, topic: str) -> str:
        return f"{self.aliases[0]}.{topic}"

    def running(self, *, published: Any = (), **more: str) -> Running:
        given = {"topics": f"{self.name}-.*", "sync_topic_acls_enabled": "false", **more}
        source, target = self.clients
        props = source_connectors.config(source, target, aliases=self.aliases, **given)
        return Running(props, published=published)


@pytest.fixture
def flow(west: SandboxCluster, east: SandboxCluster) -> Iterator[Flow]:
    made = Flow(west, east, f"flow{next(_UNIQUE)}")
    with made.source, made.target:
        yield made


def soon(holds: Callable[[], bool], what: str | Callable[[], str]) -> None:
    eventually.eventually(holds, WAIT_S, what, interval_s=0.2)


def test_mirrors_are_made_like_their_topics_and_shares_go_round(flow):
    large = flow.topic("a", 3, cleanup_policy="compact", min_insync_replicas="1")
    small = flow.topic("b", 1, delete_retention_ms="77", compression_type="zstd")
    with flow.running() as made:
        assert made.shares() == [
            f"{large}-0,{small}-0",
            f"{large}-1",
            f"{large}-2",
        ]
        assert flow.target.partitions(flow.mirror(large)) == 3
        assert flow.target.overrides(flow.mirror(large)) == {"cleanup.policy": "compact"}
        assert flow.target.overrides(flow.mirror(small)) == {
            "delete.retention.ms": "77",
            "compression.type": "zstd",
        }
        log = f"mm2-offset-map.{flow.aliases[0]}.internal"
        assert flow.target.overrides(log)["cleanup.policy"] == "compact"
        syncs = f"mm2-offset-syncs.{flow.aliases[1]}.internal"
        assert flow.source.overrides(syncs) == {"cleanup.policy": "compact"}
        assert syncs not in flow.target.names()


def test_more_replicas_than_brokers_are_refused_topic_by_topic(flow, caplog):
    there, missing = flow.topic("there", 1), flow.topic("missing", 1)
    kafka.create_topic(flow.clients[1], flow.mirror(there))
    for each in ("offset-map", "incidents"):  # which have as many replicas as mirrors
        name = f"mm2-{each}.{flow.aliases[0]}.internal"
        kafka.create_topic(flow.clients[1], name, config={"cleanup.policy": "compact"})
    with flow.running(replication_factor="3") as made:
        assert made.shares() == [f"{there}-0"]
        assert flow.mirror(missing) not in flow.target.names()
    assert "INVALID_REPLICATION_FACTOR" in caplog.text
    assert "set a replication.factor of at most the number of brokers" in caplog.text


def test_brokers_decide_on_replicas_where_that_is_asked(flow):
    topic = flow.topic("t", 1)
    with flow.running(replication_factor="-1") as made:
        assert made.shares() == [f"{topic}-0"]


def test_what_comes_and_grows_is_mirrored_and_stays_where_it_is(flow):
    first = flow.topic("b", 2)
    with flow.running(start="latest") as made:
        assert made.shares() == [f"{first}-0", f"{first}-1"]
        second = flow.topic("a", 1)
        made.asks(1)
        configs = made.publish()
        assert [each["task.assigned.partitions"] for each in configs] == [
            f"{first}-0",
            f"{first}-1",
            f"{second}-0",
        ]
        late = [each.get("mm2.task.added.partitions") for each in configs]
        assert late == [None, None, f"{second}-0"]
        flow.source.grow(first, 4)
        made.asks(2)
        assert made.shares() == [f"{first}-0,{first}-2", f"{first}-1,{first}-3", f"{second}-0"]
        assert flow.target.partitions(flow.mirror(first)) == 4
        assert made.stays_quiet(2.5), "tasks are told of news alone"
    with flow.running(start="latest", published=made.context.published) as again:
        assert again.publish() == made.context.published


def test_settings_follow_what_is_not_excluded_and_what_people_change_is_set_back(flow):
    topic = flow.topic("t", 1, delete_retention_ms="77", segment_bytes="2000000")
    with flow.running(config_properties_exclude="segment.bytes,min.insync.replicas"):
        mirror = flow.mirror(topic)
        assert flow.target.overrides(mirror) == {"delete.retention.ms": "77"}
        flow.target.alter(mirror, delete_retention_ms="5", segment_bytes="3000000")
        wanted = {"delete.retention.ms": "77", "segment.bytes": "3000000"}
        soon(lambda: flow.target.overrides(mirror) == wanted, "the excluded one stays")
        flow.source.alter(topic, "delete.retention.ms", cleanup_policy="compact")
        wanted = {"cleanup.policy": "compact", "segment.bytes": "3000000"}
        soon(lambda: flow.target.overrides(mirror) == wanted, "none is left behind")


def test_the_sources_defaults_are_taken_over_where_that_is_asked(flow):
    topic = flow.topic("t", 1)
    with flow.running(use_defaults_from="source"):
        found = flow.target.overrides(flow.mirror(topic))
    assert found["delete.retention.ms"] == "86400000"
    assert "min.insync.replicas" not in found


@pytest.mark.parametrize("location", ["source", "target"])
def test_offset_syncs_are_where_they_are_asked_for(flow, location):
    flow.topic("t", 1)
    with flow.running(**{"offset-syncs_topic_location": location}):
        on_source = f"mm2-offset-syncs.{flow.aliases[1]}.internal" in flow.source.names()
        on_target = f"mm2-offset-syncs.{flow.aliases[0]}.internal" in flow.target.names()
    assert (on_source, on_target) == (location == "source", location == "target")


def test_a_mirror_that_is_deleted_is_made_again_and_its_task_left_alone(flow):
    topic = flow.topic("t", 2)
    with flow.running() as made:
        shares = made.shares()
        kafka.delete_topic(flow.clients[1], flow.mirror(topic))
        soon(lambda: flow.target.partitions(flow.mirror(topic)) == 2, "it is made again")
        assert made.shares() == shares
        assert made.context.reconfigurations == 0


def test_a_topic_that_is_deleted_is_taken_from_its_task_and_its_mirror_kept(flow):
    kept, gone = flow.topic("kept", 1), flow.topic("gone", 1)
    with flow.running() as made:
        assert made.shares() == [f"{gone}-0", f"{kept}-0"]
        kafka.delete_topic(flow.clients[0], gone)
        made.asks(1)
        assert made.shares() == [f"{kept}-0"]
        assert flow.mirror(gone) in flow.target.names()


def test_rights_follow_from_an_authorizer_to_another(own_cluster, caplog):
    fort = own_cluster("fort", users=["mirror"])
    properties = fort.client_properties()
    kafka.create_topic(properties, "orders")

    def right(name: str, operation: str, **more: str) -> TopicAcl:
        given = {"principal": "User:mirror", "host": "*", "permission": acl_sync_plan.ALLOW, **more}
        return TopicAcl(name=name, operation=operation, **given)

    rights = KafkaAclAdmin(cluster_access.of(fort), client_id="test", clock=cluster_access.CLOCK)
    there = [
        right("orders", "ALL"),
        right("orders", "WRITE"),
        right("orders", "DESCRIBE", host="127.0.0.1"),
        right("orders", "ALL", permission=acl_sync_plan.DENY, host="127.0.0.2"),
        right("orders", "DELETE"),
        right("*", "DESCRIBE"),
        right("ord", "READ", pattern="PREFIXED"),
    ]
    assert rights.create_acls(there, WAIT_S) == {}
    wanted = [
        right("far.orders", "READ"),
        right("far.orders", "DESCRIBE", host="127.0.0.1"),
        right("far.orders", "READ", permission=acl_sync_plan.DENY, host="127.0.0.2"),
        right("far.orders", "DESCRIBE", permission=acl_sync_plan.DENY, host="127.0.0.2"),
    ]

    def of_mirror() -> list[TopicAcl]:
        return [each for each in rights.list_topic_acls(WAIT_S) if each.name == "far.orders"]

    props = source_connectors.config(
        properties, properties, aliases=("far", "near"), topics="orders"
    )
    with Running(props) as made:
        assert made.shares() == ["orders-0"]
        soon(lambda: of_mirror() == sorted(wanted), lambda: str(of_mirror()))
        assert rights.create_acls([right("orders", "DESCRIBE")], WAIT_S) == {}
        wanted.append(right("far.orders", "DESCRIBE"))
        soon(lambda: of_mirror() == sorted(wanted), lambda: str(of_mirror()))
    rights.close()
    assert "both aliases denote the same cluster" in caplog.text

    denied = source_connectors.config(
        fort.client_properties("mirror"), properties, aliases=("far", "near"), topics="orders"
    )
    caplog.clear()
    with Running(denied):
        soon(lambda: "--operation Describe --cluster" in caplog.text, lambda: caplog.text)


def test_who_stops_it_does_not_wait_for_a_cluster_that_is_silent(own_cluster, east, caplog):
    silent = own_cluster("silent")
    kafka.create_topic(silent.client_properties(), "t")
    source, target = silent.client_properties(), east.client_properties()
    props = source_connectors.config(source, target, aliases=("silent", "near"), topics="t")
    with Running(props) as made:
        assert made.shares() == ["t-0"]
        silent.freeze()
        assert made.stays_quiet(2.5)  # and in the middle of a look
    assert "did not stop in time" not in caplog.text
    silent.unfreeze()


def test_wrong_addresses_are_told_while_it_starts(flow):
    props = {**flow.running().props, "target.cluster.bootstrap.servers": "127.0.0.1:nine"}
    with pytest.raises(FatalError, match=r"bootstrap\.servers"), Running(props):
        pass


def test_who_alters_offsets_has_records_copied_again_from_there(flow, connect_group):
    """On a worker, with its tasks. Java: the integration test of altered offsets."""
    some, all_ = flow.topic("some", 1), flow.topic("all", 1)
    for topic in (some, all_):
        kafka.produce(flow.clients[0], topic, [Outgoing(value=b"%d" % n) for n in range(20)])
    worker = connect_group().start("one", Kind.OURS)
    worker.configure(
        NAME, {**flow.running(refresh_topics_interval_seconds="600").props, "mm2.engine": "inline"}
    )
    path = f"/connectors/{NAME}"
    two = {some: list(range(20)), all_: list(range(20))}

    def copied(wanted: dict[str, list[int]]) -> None:
        def as_wanted() -> bool:
            return {each: values(each) for each in wanted} == wanted

        eventually.eventually(as_wanted, WAIT_S, worker.log_text, interval_s=0.3)

    def values(topic: str) -> list[int]:
        found = kafka.read_partition(flow.clients[1], flow.mirror(topic))
        return [int(each.value or b"-1") for each in found]

    def stored() -> dict[str, int]:
        found = worker.get(f"{path}/offsets")["offsets"]
        return {each["partition"]["topic"]: each["offset"]["offset"] for each in found}

    def stopped() -> bool:
        return bool(worker.get(f"{path}/status")["tasks"] == [])

    copied(two)
    eventually.eventually(lambda: stored() == {some: 19, all_: 19}, WAIT_S, worker.log_text)
    worker.ask("PUT", f"{path}/stop")
    eventually.eventually(stopped, WAIT_S, worker.log_text)
    place = {"cluster": flow.aliases[0], "partition": 0}
    wanted = [
        {"partition": {**place, "topic": some}, "offset": {"offset": 9}},
        {"partition": {**place, "topic": all_}, "offset": None},
    ]
    answer = worker.ask("PATCH", f"{path}/offsets", {"offsets": wanted})
    assert answer.status_code == 200, answer.text
    worker.ask("PUT", f"{path}/resume")
    two[some] += range(10, 20)
    two[all_] += range(20)
    copied(two)
    worker.ask("PUT", f"{path}/stop")
    eventually.eventually(stopped, WAIT_S, worker.log_text)
    assert worker.ask("DELETE", f"{path}/offsets").status_code == 200
    worker.ask("PUT", f"{path}/resume")
    for topic in two:
        two[topic] += range(20)
    copied(two)


def test_a_topic_that_comes_restarts_the_one_task_that_gets_it(flow, connect_group, east):
    """As the status topic tells it."""
    for stem in "abc":
        flow.topic(stem, 1)
    group = connect_group()
    worker = group.start("one", Kind.OURS)
    worker.configure(NAME, {**flow.running().props, "mm2.engine": "inline"})
    eventually.eventually(lambda: worker.runs(NAME, tasks=3), WAIT_S, worker.log_text)

    def begun() -> dict[str, int]:
        """How often each task began to run."""
        every = kafka.read_topic(east.client_properties(), f"{group.group_id}-statuses")
        found: dict[str, int] = {}
        for record in itertools.chain.from_iterable(every.values()):
            key = (record.key or b"").decode()
            if f"status-task-{NAME}-" in key and b'"RUNNING"' in (record.value or b""):
                found[key[-1]] = found.get(key[-1], 0) + 1
        return found

    before = begun()
    later = flow.topic("later", 1)
    kafka.produce(flow.clients[0], later, [Outgoing(value=b"1")])

    def copied() -> bool:
        mirror = flow.mirror(later)
        return mirror in flow.target.names() and kafka.offsets(flow.clients[1], mirror)[1] > 0

    eventually.eventually(copied, WAIT_S, worker.log_text, interval_s=0.3)
    eventually.eventually(lambda: worker.runs(NAME, tasks=3), WAIT_S, worker.log_text)
    assert begun() == {**before, "0": before["0"] + 1}
