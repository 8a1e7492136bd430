from __future__ import annotations

import itertools

import pytest

from connect_runtime.base.errors import ConnectError, RetriableError
from connect_runtime.base.ids import ConnectorTaskId, TopicPartition
from connect_runtime.kafka.client_errors import UnreachableError
from connect_runtime.storage import config_records, status_records
from connect_runtime.storage.cluster_config_state import TargetState
from connect_runtime.storage.config_topic import ConfigTopicState
from connect_runtime.storage.status_records import RunState, RunStatus
from connect_runtime.storage.status_topic import StatusTopicState
from connect_runtime.system.system_clock import SystemClock
from mm2.clusters import flow_rest_client
from mm2.clusters.connect_group_state import ConnectGroupSnapshot
from mm2.connectors.flow_state_store import FlowStateStore
from mm2.formats import offset_map_records
from mm2.formats.offset_map_records import (
    Era,
    EraKey,
    MapKey,
    MapSegment,
    MapSegmentKey,
    MapValue,
    NewEraRequest,
    NewEraRequestKey,
    OffsetRun,
)
from mm2.offsets.offset_map import OffsetMap
from mm2.repair import topic_reset
from mm2.repair.topic_reset import (
    FlowActivity,
    InvalidResetError,
    ObservedPartition,
    ResetDecision,
    ResetWaiter,
    TopicResetRequest,
)
from mm2.topics import replication_policy, task_assignment, topic_filters
from mm2.topics.flow_config import Flow
from tests.fakes.admin import FakeAdmin, FakeCluster
from tests.fakes.flow_log import FakeFlowStateLog

EXCLUDED = (*topic_filters.DEFAULT_TOPICS_EXCLUDE, "secret")
MAP_TOPIC = replication_policy.format_offset_map_topic("east")
FLOW = Flow(
    source="east", target="west", topics=topic_filters.compile_topic_filter(exclude=EXCLUDED)
)
P0 = TopicPartition("orders", 0)


def segment(through: int) -> MapSegment:
    return MapSegment(
        leader_epoch=0,
        source_epoch=0,
        owner=bytes(8),
        acquired_from=0,
        through=through,
        target_next=through,
        last_crc=None,
        runs=(OffsetRun(0, 0),),
    )


def era(**changes) -> Era:
    usual = {
        "source_cluster": "a",
        "target_cluster": "b",
        "source_topic_id": bytes(16),
        "target_topic_id": bytes(16),
        "first_source": 0,
        "first_target": 0,
    }
    return Era(**{**usual, **changes})


class World:
    """Two clusters in memory; `orders` has three partitions on the source."""

    def __init__(self) -> None:
        self.east = FakeCluster()
        self.west = FakeCluster()
        self.east.create("orders", partitions=3)
        self.east.create("secret")
        self.log = FakeFlowStateLog(self.west, source_alias="east")
        self.numbers = itertools.count(1)

    def write(self, key: MapKey, value: MapValue) -> None:
        log = self.west.topics[MAP_TOPIC].log
        log.append(
            (offset_map_records.encode_map_key(key), offset_map_records.encode_map_value(value))
        )

    def anchor(self, through: int, *, partition: int = 0, epoch: int = 1) -> None:
        if MAP_TOPIC not in self.west.topics:
            self.west.create(MAP_TOPIC, cleanup_policy="compact")
        key = MapSegmentKey(
            topic="orders", partition=partition, era=2, ordinal=1, epoch=epoch, first_source=0
        )
        self.write(key, segment(through))

    def ask(self, position="earliest", *, topic="orders", partitions=(), store=None):
        order = TopicResetRequest(flow=FLOW, topic=topic, partitions=partitions, position=position)
        return topic_reset.record_reset_decisions(
            order,
            FakeAdmin(self.east),
            store or FlowStateStore(self.log),
            now=SystemClock(),
            new_id=lambda: f"request-{next(self.numbers)}",
        )

    def begin(self, decision: ResetDecision, *, source: int = 0, epoch: int = 7) -> None:
        """A task acts on it."""
        key = EraKey(
            topic="orders",
            partition=decision.partition.partition,
            era=3,
            ordinal=1,
            epoch=epoch,
        )
        self.write(key, era(first_source=source, request=decision.request))

    def map(self) -> OffsetMap:
        found = OffsetMap()
        for key, value in self.west.topics[MAP_TOPIC].log:
            found.apply_record(key, value)
        return found


def test_every_partition_of_the_topic_gets_a_request_of_its_own():
    world = World()
    recorded = world.ask("latest")
    assert [str(each.partition) for each in recorded] == ["orders-0", "orders-1", "orders-2"]
    requests = [world.map().get_partition(each.partition).pending_era_request for each in recorded]
    assert [each and each.position for each in requests] == ["latest"] * 3
    assert len({each and each.request for each in requests}) == 3


def test_only_the_named_partitions_get_one():
    world = World()
    recorded = world.ask("1700000000000", partitions=(2, 0, 2))
    assert [each.partition.partition for each in recorded] == [0, 2]
    assert world.map().get_partition(TopicPartition("orders", 1)).request is None


def test_a_later_request_replaces_an_earlier_one():
    world = World()
    world.ask("earliest", partitions=(0,))
    world.ask("latest", partitions=(0,))
    request = world.map().get_partition(P0).pending_era_request
    assert request is not None
    assert request.position == "latest"


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"topic": "order"}, "no topic 'order'; did you mean 'orders'"),
        ({"topic": "secret"}, "does not replicate topic 'secret'"),
        ({"partitions": (3,)}, "no partition 3; it has 0 to 2"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_written(asked, words):
    world = World()
    with pytest.raises(InvalidResetError, match=words):
        world.ask(**asked)
    assert world.west.topics == {}


def test_a_source_that_does_not_answer_is_an_error():
    world = World()
    world.east.away = True
    with pytest.raises(UnreachableError):
        world.ask()


def test_a_request_that_cannot_be_recorded_is_an_error():
    world = World()
    world.log = FakeFlowStateLog(world.west, source_alias="east", max_record_bytes=10)
    with pytest.raises(ConnectError):
        world.ask()


def test_somebody_elses_request_at_the_same_time_is_noticed():
    world = World()
    store = FlowStateStore(world.log)
    world.anchor(1)
    other = NewEraRequest(request="other", position="latest")
    work = store.run_once

    def work_and_be_overtaken(timeout_s: float) -> None:
        work(timeout_s)
        world.write(NewEraRequestKey(topic="orders", partition=0), other)

    store.run_once = work_and_be_overtaken  # type: ignore[method-assign]  # somebody else, in between
    with pytest.raises(
        RetriableError, match="not recorded: another operator reset orders-0 to latest"
    ):
        world.ask(partitions=(0,), store=store)


@pytest.mark.parametrize(
    ("position", "words"),
    [
        ("earliest", ["at the first record", "below offset 100", "duplicates"]),
        (
            "latest",
            ["at the end of the source's log", "from offset 100", "mm2 incidents lists them"],
        ),
        ("offset:80", ["at source offset 80", "below offset 100", "duplicates"]),
        ("1700000000000", ["2023-11-14T22:13:20.000Z", "duplicates", "not replicated"]),
    ],
)
def test_what_it_costs_is_said(position, words):
    world = World()
    world.anchor(100)
    world.write(EraKey(topic="orders", partition=0, era=2, ordinal=1, epoch=1), era())
    copied, fresh, _ = (each.describe() for each in world.ask(position))
    assert copied.startswith("orders-0: replicated up to source offset 100; starts again ")
    assert all(each in copied for each in words), copied
    assert fresh.startswith("orders-1: not replicated so far; starts again ")


def test_of_a_recreated_topic_nothing_is_called_a_duplicate():
    world = World()
    world.anchor(100)
    key = EraKey(topic="orders", partition=0, era=2, ordinal=1, epoch=1)
    world.write(key, era(source_topic_id=b"1" * 16))
    told = world.ask()[0].describe()
    assert "the source topic was recreated" in told
    assert "duplicates" not in told


def test_the_request_is_in_the_map_topic_alone():
    world = World()
    world.ask()
    incidents = world.west.topics[replication_policy.format_incidents_topic("east")]
    assert incidents.log == []


# Who runs the flow


def group(*, hosts=(), state=None, config=None) -> ConnectGroupSnapshot:
    log = ConfigTopicState()
    records = [
        config_records.encode_connector_config(flow_rest_client.SOURCE_CONNECTOR, config or {})
    ]
    if state is not None:
        records.append(config_records.encode_target_state(flow_rest_client.SOURCE_CONNECTOR, state))
    for offset, each in enumerate(records):
        log.apply_record(each.key, each.value, offset=offset)
    log.finish_replay()
    statuses = StatusTopicState().snapshot()
    return ConnectGroupSnapshot(config=log.snapshot(), statuses=statuses, hosts=hosts)


PAUSED, STOPPED = TargetState.PAUSED, TargetState.STOPPED


@pytest.mark.parametrize(
    ("found", "here", "running"),
    [
        (group(), False, FlowActivity.NO),
        (group(), True, FlowActivity.YES),
        (group(hosts=("a",)), False, FlowActivity.YES),
        (group(hosts=None), False, FlowActivity.YES),
        (group(hosts=("a",), state=PAUSED), True, FlowActivity.PAUSED),
        (group(hosts=("a",), state=STOPPED), True, FlowActivity.STOPPED),
        (
            group(hosts=("a",), config={"live.paused.topic.orders": "true"}),
            True,
            FlowActivity.TOPIC_PAUSED,
        ),
        (
            group(hosts=("a",), config={"live.paused.topic.other": "true"}),
            True,
            FlowActivity.YES,
        ),
    ],
)
def test_the_group_says_whether_the_flow_runs(found, here, running):
    assert topic_reset.find_flow_activity(found, topic="orders", here=here) is running


def test_the_group_says_which_node_has_a_partition():
    configs, statuses = ConfigTopicState(), StatusTopicState()
    written = [
        config_records.encode_connector_config(flow_rest_client.SOURCE_CONNECTOR, {}),
        *config_records.encode_task_configs(
            flow_rest_client.SOURCE_CONNECTOR,
            [
                {task_assignment.PARTITIONS_KEY: "orders-0,orders-1"},
                {task_assignment.PARTITIONS_KEY: "orders-2"},
            ],
        ),
        config_records.encode_task_config_commit(flow_rest_client.SOURCE_CONNECTOR, 2),
    ]
    for offset, each in enumerate(written):
        configs.apply_record(each.key, each.value, offset=offset)
    configs.finish_replay()
    status = RunStatus(state=RunState.RUNNING, worker_id="10.0.0.2:8083/east->west", generation=1)
    record = status_records.encode_status(
        ConnectorTaskId(flow_rest_client.SOURCE_CONNECTOR, 0), status
    )
    statuses.apply_record(record.key, record.value, offset=0)
    found = ConnectGroupSnapshot(config=configs.snapshot(), statuses=statuses.snapshot(), hosts=())
    p1, p2 = (TopicPartition("orders", number) for number in (1, 2))
    assert topic_reset.find_task_nodes(found, [p1, p2]) == {p1: "10.0.0.2:8083"}


# Waiting until a task has acted on it


class Watch:
    """Time passes while it is waited; what happens at which second is `then`."""

    def __init__(self, world: World, decisions, *, seen=None, then=()) -> None:
        self.seen, self.passed_s = seen, 0.0
        self.then = dict(then)
        self.asked: list[list[TopicPartition]] = []
        self.trouble: ConnectError | None = None
        store = FlowStateStore(world.log)
        store.open(1.0)
        self.awaiting = ResetWaiter(
            decisions=decisions,
            store=store,
            collect_partitions=lambda: self.seen,
            explain_inactivity=lambda: "",
            find_nodes=self.nodes,
            clock=self,
            sleep=self.pause,
        )

    def nodes(self, partitions):
        self.asked.append(list(partitions))
        if self.trouble is not None:
            raise self.trouble
        return dict.fromkeys(partitions, "10.0.0.2:8083")

    def now_s(self) -> float:
        return self.passed_s

    def pause(self, seconds: float) -> None:
        self.passed_s += seconds
        for at_s in [each for each in self.then if each <= self.passed_s]:
            self.then.pop(at_s)()

    def wall_ms(self) -> int:
        return int(self.passed_s * 1000)

    def outcomes(self, timeout_s: float = 60.0) -> list[str]:
        return [each.describe() for each in self.awaiting.wait_for_outcomes(timeout_s)]


def seen(state: str, reason: str = "") -> dict[TopicPartition, ObservedPartition]:
    return {P0: ObservedPartition(state=state, reason=reason)}


def decided(**more) -> tuple[World, list[ResetDecision]]:
    world = World()
    return world, world.ask(partitions=(0,), **more)


def test_partitions_replicate_again_once_a_task_began_them_and_copies():
    world, decisions = decided()
    watch = Watch(world, decisions, seen=seen("halted", "[recreated] …"))
    watch.then = {
        1: lambda: world.begin(decisions[0], source=3),
        3: lambda: setattr(watch, "seen", seen("copying")),
    }
    assert watch.outcomes() == ["orders-0: replicating again from source offset 3"]
    assert 3 <= watch.passed_s < 5


def test_of_a_node_elsewhere_only_the_beginning_is_known():
    world, decisions = decided()
    watch = Watch(world, decisions, then={2: lambda: world.begin(decisions[0])})
    (found,) = watch.awaiting.wait_for_outcomes(60.0)
    assert found.replicating is None
    assert found.describe() == (
        "orders-0: restarted at source offset 0; its state is available only on node "
        "10.0.0.2:8083: run mm2 status there"
    )
    assert watch.asked == [[P0]]


def test_a_node_that_cannot_be_named_is_still_another_one():
    world, decisions = decided()
    world.begin(decisions[0])
    watch = Watch(world, decisions)
    watch.trouble = RetriableError("west does not respond")
    assert watch.outcomes() == [
        "orders-0: restarted at source offset 0; its state is available only on the node that "
        "runs its task: run mm2 status there"
    ]


def test_a_task_here_is_given_time_to_show_the_partition():
    world, decisions = decided()
    world.begin(decisions[0])
    watch = Watch(world, decisions, seen={})
    watch.then = {
        topic_reset.REMOTE_NODE_GRACE_S - 2: lambda: setattr(watch, "seen", seen("copying"))
    }
    assert watch.outcomes() == ["orders-0: replicating again from source offset 0"]
    watch = Watch(world, decisions, seen={})
    assert "run mm2 status there" in watch.outcomes()[0]
    assert watch.passed_s == topic_reset.REMOTE_NODE_GRACE_S


def test_a_partition_that_halts_again_is_not_replicating():
    world, decisions = decided()
    world.begin(decisions[0], source=3)
    watch = Watch(world, decisions, seen=seen("halted", "[corrupt-batch] it is damaged."))
    (told,) = watch.outcomes()
    assert told == (
        "orders-0: not replicating: [corrupt-batch] it is damaged. It restarted at source offset 3."
    )
    assert watch.passed_s == topic_reset.HALT_GRACE_S


def test_a_decision_that_nobody_acts_on_is_an_outcome_in_time():
    world, decisions = decided()
    watch = Watch(world, decisions)
    (told,) = watch.outcomes(10.0)
    assert told.startswith("orders-0: not replicating: no node applied the decision in time")
    assert watch.passed_s == 10.0


def test_another_decision_ends_the_waiting():
    world, decisions = decided()
    other = NewEraRequest(request="other", position="latest")
    key = NewEraRequestKey(topic="orders", partition=0)
    watch = Watch(world, decisions, then={1: lambda: world.write(key, other)})
    assert watch.outcomes() == [
        "orders-0: not replicating: another reset decision replaced this one"
    ]
