from __future__ import annotations

import itertools

import pytest

from connect_runtime.base import errors, ids
from connect_runtime.core.state import (
    cluster_config,
    config_log,
    config_records,
    status_log,
    status_records,
)
from connect_runtime.kafka_client import errors as kafka_errors
from connect_runtime.system import clock
from mm2.app import flow_api, topic_reset
from mm2.app.looks import workers
from mm2.connectors.share import flow_ledger
from mm2.core import filters, flows, naming
from mm2.core.offsets import offset_map
from mm2.core.topics import assigned
from mm2.formats import map_record
from tests.fakes import admin as fake_admin
from tests.fakes import flow_log as fake_flow_log

EXCLUDED = (*filters.DEFAULT_TOPICS_EXCLUDE, "secret")
MAP_TOPIC = naming.map_topic("east")
FLOW = flows.Flow(source="east", target="west", topics=filters.topic_filter(exclude=EXCLUDED))
P0 = ids.TopicPartition("orders", 0)


def segment(through: int) -> map_record.Segment:
    return map_record.Segment(
        leader_epoch=0,
        source_epoch=0,
        owner=bytes(8),
        take_start=0,
        through=through,
        target_next=through,
        last_crc=None,
        runs=(map_record.Run(0, 0),),
    )


def era(**changes) -> map_record.Era:
    usual = {
        "source_cluster": "a",
        "target_cluster": "b",
        "source_topic_id": bytes(16),
        "target_topic_id": bytes(16),
        "first_source": 0,
        "first_target": 0,
    }
    return map_record.Era(**{**usual, **changes})


class World:
    """Two clusters in memory; `orders` has three partitions on the source."""

    def __init__(self) -> None:
        self.east = fake_admin.FakeCluster()
        self.west = fake_admin.FakeCluster()
        self.east.create("orders", partitions=3)
        self.east.create("secret")
        self.log = fake_flow_log.FakeFlowLog(self.west, source_alias="east")
        self.numbers = itertools.count(1)

    def write(self, key: map_record.MapKey, value: map_record.MapValue) -> None:
        log = self.west.topics[MAP_TOPIC].log
        log.append((map_record.encode_key(key), map_record.encode_value(value)))

    def anchor(self, through: int, *, partition: int = 0, epoch: int = 1) -> None:
        if MAP_TOPIC not in self.west.topics:
            self.west.create(MAP_TOPIC, cleanup_policy="compact")
        key = map_record.SegmentKey(
            topic="orders", partition=partition, era=2, ordinal=1, epoch=epoch, first_source=0
        )
        self.write(key, segment(through))

    def ask(self, position="earliest", *, topic="orders", partitions=(), ledger=None):
        order = topic_reset.Order(flow=FLOW, topic=topic, partitions=partitions, position=position)
        return topic_reset.record(
            order,
            fake_admin.FakeAdmin(self.east),
            ledger or flow_ledger.FlowLedger(self.log),
            now=clock.SystemClock(),
            new_id=lambda: f"request-{next(self.numbers)}",
        )

    def begin(self, decision: topic_reset.Decision, *, source: int = 0, epoch: int = 7) -> None:
        """A task acts on it."""
        key = map_record.EraKey(
            topic="orders",
            partition=decision.partition.partition,
            era=3,
            ordinal=1,
            epoch=epoch,
        )
        self.write(key, era(first_source=source, request=decision.request))

    def map(self) -> offset_map.OffsetMap:
        found = offset_map.OffsetMap()
        for key, value in self.west.topics[MAP_TOPIC].log:
            found.apply(key, value)
        return found


def test_every_partition_of_the_topic_gets_a_request_of_its_own():
    world = World()
    recorded = world.ask("latest")
    assert [str(each.partition) for each in recorded] == ["orders-0", "orders-1", "orders-2"]
    requests = [world.map().partition(each.partition).open_request for each in recorded]
    assert [each and each.position for each in requests] == ["latest"] * 3
    assert len({each and each.request for each in requests}) == 3


def test_only_the_named_partitions_get_one():
    world = World()
    recorded = world.ask("1700000000000", partitions=(2, 0, 2))
    assert [each.partition.partition for each in recorded] == [0, 2]
    assert world.map().partition(ids.TopicPartition("orders", 1)).request is None


def test_a_later_request_replaces_an_earlier_one():
    world = World()
    world.ask("earliest", partitions=(0,))
    world.ask("latest", partitions=(0,))
    request = world.map().partition(P0).open_request
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
    with pytest.raises(topic_reset.WrongRequestError, match=words):
        world.ask(**asked)
    assert world.west.topics == {}


def test_a_source_that_does_not_answer_is_an_error():
    world = World()
    world.east.away = True
    with pytest.raises(kafka_errors.UnreachableError):
        world.ask()


def test_a_request_that_cannot_be_recorded_is_an_error():
    world = World()
    world.log = fake_flow_log.FakeFlowLog(world.west, source_alias="east", max_record_bytes=10)
    with pytest.raises(errors.ConnectError):
        world.ask()


def test_somebody_elses_request_at_the_same_time_is_noticed():
    world = World()
    ledger = flow_ledger.FlowLedger(world.log)
    world.anchor(1)
    other = map_record.Request(request="other", position="latest")
    work = ledger.work

    def work_and_be_overtaken(timeout_s: float) -> None:
        work(timeout_s)
        world.write(map_record.RequestKey(topic="orders", partition=0), other)

    ledger.work = work_and_be_overtaken  # type: ignore[method-assign]  # somebody else, in between
    with pytest.raises(
        errors.RetriableError, match="not recorded: somebody else reset orders-0 to latest"
    ):
        world.ask(partitions=(0,), ledger=ledger)


@pytest.mark.parametrize(
    ("position", "words"),
    [
        ("earliest", ["at the first record", "below offset 100", "duplicates"]),
        (
            "latest",
            ["at the end of the source's log", "from offset 100", "mm2 receipts lists them"],
        ),
        ("offset:80", ["at source offset 80", "below offset 100", "duplicates"]),
        ("1700000000000", ["2023-11-14T22:13:20.000+00:00", "duplicates", "not replicated"]),
    ],
)
def test_what_it_costs_is_said(position, words):
    world = World()
    world.anchor(100)
    world.write(map_record.EraKey(topic="orders", partition=0, era=2, ordinal=1, epoch=1), era())
    copied, fresh, _ = (each.describe() for each in world.ask(position))
    assert copied.startswith("orders-0: replicated up to source offset 100; begins again ")
    assert all(each in copied for each in words), copied
    assert fresh.startswith("orders-1: not replicated so far; begins again ")


def test_of_a_recreated_topic_nothing_is_called_a_duplicate():
    world = World()
    world.anchor(100)
    key = map_record.EraKey(topic="orders", partition=0, era=2, ordinal=1, epoch=1)
    world.write(key, era(source_topic_id=b"1" * 16))
    told = world.ask()[0].describe()
    assert "the source topic was recreated" in told
    assert "duplicates" not in told


def test_the_request_is_in_the_map_topic_alone():
    world = World()
    world.ask()
    receipts = world.west.topics[naming.receipts_topic("east")]
    assert receipts.log == []


# Who runs the flow


def group(*, hosts=(), state=None, config=None) -> workers.Workers:
    log = config_log.ConfigLog()
    records = [config_records.connector(flow_api.SOURCE, config or {})]
    if state is not None:
        records.append(config_records.target_state(flow_api.SOURCE, state))
    for offset, each in enumerate(records):
        log.apply(each.key, each.value, offset=offset)
    log.finish_replay()
    statuses = status_log.StatusLog().snapshot()
    return workers.Workers(config=log.snapshot(), statuses=statuses, hosts=hosts)


PAUSED, STOPPED = cluster_config.TargetState.PAUSED, cluster_config.TargetState.STOPPED


@pytest.mark.parametrize(
    ("found", "here", "running"),
    [
        (group(), False, topic_reset.Running.NO),
        (group(), True, topic_reset.Running.YES),
        (group(hosts=("a",)), False, topic_reset.Running.YES),
        (group(hosts=None), False, topic_reset.Running.YES),
        (group(hosts=("a",), state=PAUSED), True, topic_reset.Running.PAUSED),
        (group(hosts=("a",), state=STOPPED), True, topic_reset.Running.STOPPED),
        (
            group(hosts=("a",), config={"live.paused.topic.orders": "true"}),
            True,
            topic_reset.Running.TOPIC_PAUSED,
        ),
        (
            group(hosts=("a",), config={"live.paused.topic.other": "true"}),
            True,
            topic_reset.Running.YES,
        ),
    ],
)
def test_the_group_says_whether_the_flow_runs(found, here, running):
    assert topic_reset.running(found, topic="orders", here=here) is running


def test_the_group_says_which_node_has_a_partition():
    configs, statuses = config_log.ConfigLog(), status_log.StatusLog()
    written = [
        config_records.connector(flow_api.SOURCE, {}),
        *config_records.task_configs(
            flow_api.SOURCE,
            [{assigned.PARTITIONS: "orders-0,orders-1"}, {assigned.PARTITIONS: "orders-2"}],
        ),
        config_records.commit(flow_api.SOURCE, 2),
    ]
    for offset, each in enumerate(written):
        configs.apply(each.key, each.value, offset=offset)
    configs.finish_replay()
    status = status_records.Status(
        state=status_records.State.RUNNING, worker_id="10.0.0.2:8083/east->west", generation=1
    )
    record = status_records.status(ids.ConnectorTaskId(flow_api.SOURCE, 0), status)
    statuses.apply(record.key, record.value, offset=0)
    found = workers.Workers(config=configs.snapshot(), statuses=statuses.snapshot(), hosts=())
    p1, p2 = (ids.TopicPartition("orders", number) for number in (1, 2))
    assert topic_reset.nodes(found, [p1, p2]) == {p1: "10.0.0.2:8083"}


# Waiting until a task has acted on it


class Watch:
    """Time passes while it is waited; what happens at which second is `then`."""

    def __init__(self, world: World, decisions, *, seen=None, then=()) -> None:
        self.seen, self.passed_s = seen, 0.0
        self.then = dict(then)
        self.asked: list[list[ids.TopicPartition]] = []
        self.trouble: errors.ConnectError | None = None
        ledger = flow_ledger.FlowLedger(world.log)
        ledger.open(1.0)
        self.awaiting = topic_reset.Awaiting(
            decisions=decisions,
            ledger=ledger,
            look=lambda: self.seen,
            why_not=lambda: "",
            nodes=self.nodes,
            now=self,
            pause=self.pause,
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
        return [each.describe() for each in self.awaiting.outcomes(timeout_s)]


def seen(state: str, reason: str = "") -> dict[ids.TopicPartition, topic_reset.Seen]:
    return {P0: topic_reset.Seen(state=state, reason=reason)}


def decided(**more) -> tuple[World, list[topic_reset.Decision]]:
    world = World()
    return world, world.ask(partitions=(0,), **more)


def test_partitions_replicate_again_once_a_task_began_them_and_copies():
    world, decisions = decided()
    watch = Watch(world, decisions, seen=seen("stopped", "[recreated] …"))
    watch.then = {
        1: lambda: world.begin(decisions[0], source=3),
        3: lambda: setattr(watch, "seen", seen("copying")),
    }
    assert watch.outcomes() == ["orders-0: replicating again from source offset 3"]
    assert 3 <= watch.passed_s < 5


def test_of_a_node_elsewhere_only_the_beginning_is_known():
    world, decisions = decided()
    watch = Watch(world, decisions, then={2: lambda: world.begin(decisions[0])})
    (found,) = watch.awaiting.outcomes(60.0)
    assert found.replicating is None
    assert found.describe() == (
        "orders-0: began again at source offset 0; its state is known on node 10.0.0.2:8083 only: "
        "run mm2 status there"
    )
    assert watch.asked == [[P0]]


def test_a_node_that_cannot_be_named_is_still_another_one():
    world, decisions = decided()
    world.begin(decisions[0])
    watch = Watch(world, decisions)
    watch.trouble = errors.RetriableError("west does not answer")
    assert watch.outcomes() == [
        "orders-0: began again at source offset 0; its state is known on the node that has its "
        "task only: run mm2 status there"
    ]


def test_a_task_here_is_given_time_to_show_the_partition():
    world, decisions = decided()
    world.begin(decisions[0])
    watch = Watch(world, decisions, seen={})
    watch.then = {topic_reset.UNSEEN_S - 2: lambda: setattr(watch, "seen", seen("copying"))}
    assert watch.outcomes() == ["orders-0: replicating again from source offset 0"]
    watch = Watch(world, decisions, seen={})
    assert "run mm2 status there" in watch.outcomes()[0]
    assert watch.passed_s == topic_reset.UNSEEN_S


def test_a_partition_that_halts_again_is_not_replicating():
    world, decisions = decided()
    world.begin(decisions[0], source=3)
    watch = Watch(world, decisions, seen=seen("stopped", "[corrupt-batch] it is damaged."))
    (told,) = watch.outcomes()
    assert told == (
        "orders-0: not replicating: [corrupt-batch] it is damaged. "
        "It began again at source offset 3."
    )
    assert watch.passed_s == topic_reset.SETTLE_S


def test_a_decision_that_nobody_acts_on_is_an_outcome_in_time():
    world, decisions = decided()
    watch = Watch(world, decisions)
    (told,) = watch.outcomes(10.0)
    assert told.startswith("orders-0: not replicating: no node acted on the decision in time")
    assert watch.passed_s == 10.0


def test_another_decision_ends_the_waiting():
    world, decisions = decided()
    other = map_record.Request(request="other", position="latest")
    key = map_record.RequestKey(topic="orders", partition=0)
    watch = Watch(world, decisions, then={1: lambda: world.write(key, other)})
    assert watch.outcomes() == ["orders-0: not replicating: another decision replaced this one"]
