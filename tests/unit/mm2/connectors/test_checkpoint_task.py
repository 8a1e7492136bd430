"""A checkpoint task over two clusters in memory: what it publishes, when, and after what."""

from __future__ import annotations

import logging

import pytest

from connect_runtime.api import schema
from connect_runtime.api.errors import ConfigError
from connect_runtime.api.records import RecordMetadata, SourceRecord
from connect_runtime.base.errors import ConnectError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka.client_errors import (
    NotAuthorizedError,
    TopicMissingError,
    UnreachableError,
)
from mm2.connectors import checkpoint_task, status_registry
from mm2.connectors.checkpoint_task import MirrorCheckpointTask
from mm2.connectors.status_registry import GroupSearchResult
from mm2.formats import mirrormaker2_records
from mm2.formats.mirrormaker2_records import Checkpoint
from mm2.kafka.kafka_client_interfaces import LogTruncatedError
from mm2.offsets.group_offset_sync import GroupState
from mm2.topics import topic_selection
from tests.fakes import copied_map
from tests.fakes.checkpoint_clients import FakeClusters
from tests.fakes.plugin_contexts import Context

T0 = TopicPartition("orders", 0)
MIRROR = TopicPartition("A.orders", 0)
PROPS = {
    "name": "points",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "task.assigned.groups": "g1,g2",
    "task.index": "1",
    "emit.checkpoints.interval.seconds": "60",
}
UNREACHABLE = UnreachableError("asking: nobody answers")
FORBIDDEN = NotAuthorizedError("reading: not allowed")


class Running:
    """One task, polled by hand."""

    def __init__(self, clusters, **props):
        self.clusters = clusters
        self.context = Context()
        self.task = MirrorCheckpointTask(clusters)
        self.task.initialize(self.context)
        self.task.start(PROPS | {name.replace("_", "."): each for name, each in props.items()})

    def poll(self) -> list[SourceRecord]:
        return list(self.task.poll() or ())

    def stores(self) -> list[SourceRecord]:
        """Polls once; Kafka has what came of it before the next poll, in which nothing comes."""
        found = self.poll()
        for each in found:
            self.acknowledge(each)
        assert self.poll() == []
        return found

    def acknowledge(self, record) -> None:
        metadata = RecordMetadata(topic=record.topic, partition=0, offset=3)
        self.task.commit_record(record, metadata)

    def load(self) -> None:
        assert self.poll() == []

    def emits(self) -> list[Checkpoint]:
        return [
            mirrormaker2_records.decode_checkpoint(each.key, each.value) for each in self.poll()
        ]

    def later(self, seconds: float) -> None:
        self.context.clock.now += seconds
        self.context.clock.wall += int(seconds * 1_000)


@pytest.fixture
def clusters():
    return FakeClusters()


@pytest.fixture
def start(clusters):
    started = []

    def start(**props):
        started.append(Running(clusters, **props))
        return started[-1]

    yield start
    for each in started:
        each.task.stop()
    assert clusters.all_closed()


def point(upstream, downstream, *, group="g1", metadata=""):
    return Checkpoint(
        group=group,
        partition=MIRROR,
        upstream=upstream,
        downstream=downstream,
        metadata=metadata,
    )


def test_a_groups_offset_becomes_a_record_of_javas_bytes(clusters, start):
    clusters.source.commit("g1", {T0: 20}, metadata="note")
    clusters.synced(T0, 20, 7)
    running = start()
    running.load()
    (found,) = running.poll()
    assert (found.key, found.value) == mirrormaker2_records.encode_checkpoint(
        point(20, 7, metadata="note")
    )
    assert (found.topic, found.kafka_partition) == ("A.checkpoints.internal", 0)
    assert found.key_schema == found.value_schema == schema.BYTES_SCHEMA
    assert found.timestamp == running.context.clock.wall_ms()
    assert found.source_partition == {"partition": 0, "topic": "A.orders", "group": "g1"}
    assert list(found.source_partition) == ["partition", "topic", "group"], "Java's order of bytes"
    assert found.source_offset == {"offset": 0}
    assert clusters.task == 1
    clusters.source.commit("g1", {T0: 21})
    running.later(60)
    (again,) = running.poll()
    assert (again.source_partition, again.source_offset) == (None, None), "it would be the same"


def test_what_was_said_is_not_said_again_and_what_goes_back_on_the_target_neither(clusters, start):
    clusters.source.commit("g1", {T0: 20})
    clusters.synced(T0, 20, 20)
    running = start()
    running.load()
    assert running.emits() == [point(20, 20)]
    assert running.emits() == [], "not before the interval is over"
    running.later(60)
    assert running.emits() == []
    clusters.synced(T0, 30, 25)
    clusters.source.commit("g1", {T0: 31})
    running.later(59)
    assert running.emits() == []
    running.later(1)
    assert running.emits() == [point(31, 26)]
    clusters.source.commit("g1", {T0: 21})
    running.later(60)
    assert running.emits() == [point(21, 21)], "the group went back by itself"


def test_only_its_own_groups_are_followed_and_only_topics_of_the_flow(clusters, start):
    other = TopicPartition("others", 0)
    clusters.source.commit("g1", {T0: 5, other: 5})
    clusters.source.commit("g3", {T0: 5})
    for place in (T0, other):
        clusters.synced(place, 5, 5)
    running = start(topics="orders")
    running.load()
    assert running.emits() == [point(5, 5)]


def test_where_we_mirrored_the_map_is_exact_and_elsewhere_syncs_count(clusters, start):
    """Java: a group that is behind reads again up to half of what lies behind it."""
    clusters.map_log = copied_map.log(T0, through=30, delta=-5, start=10)
    clusters.synced(T0, 8, 3)
    clusters.synced(T0, 30, 25)
    running = start()
    running.load()
    for offset in (9, 17, 30, 31):
        clusters.source.commit("g1", {T0: offset})
        assert running.emits() == [point(offset, min(offset - 5, 26))], offset
        running.later(60)
    clusters.map_failures.append(UNREACHABLE)
    clusters.source.commit("g1", {T0: 12})
    assert running.emits() == [point(12, 7)], "what is known is no less true"


@pytest.mark.parametrize("known", [True, False])
def test_after_a_restart_old_syncs_count_where_checkpoints_are_known(clusters, start, known):
    clusters.source.commit("g1", {T0: 20})
    for offset in (10, 20, 30):
        clusters.synced(T0, offset, offset)
    clusters.checkpoints_log.append(mirrormaker2_records.encode_checkpoint(point(15, 11)))
    clusters.checkpoints_log.append((b"no", b"checkpoint"))
    if not known:
        clusters.checkpoints_failures.append(FORBIDDEN)
    running = start()
    running.load()
    assert running.emits() == ([point(20, 20)] if known else [])


def test_what_stands_is_not_gone_behind_after_a_restart(clusters, start):
    clusters.source.commit("g1", {T0: 20})
    clusters.synced(T0, 10, 10)
    clusters.checkpoints_log.append(mirrormaker2_records.encode_checkpoint(point(20, 18)))
    running = start()
    running.load()
    assert running.emits() == []


def test_what_another_wrote_who_knows_less_is_replaced_and_nobody_answers_himself(clusters, start):
    """A task that lingered, or Java beside us."""
    clusters.source.commit("g1", {T0: 20})
    clusters.synced(T0, 20, 20)
    running = start()
    running.load()
    (own,) = running.emits()
    clusters.checkpoints_log.append(mirrormaker2_records.encode_checkpoint(own))
    running.later(60)
    assert running.emits() == []
    clusters.checkpoints_log.append(mirrormaker2_records.encode_checkpoint(point(12, 12)))
    running.later(60)
    assert running.emits() == [own]
    clusters.checkpoints_log.append(mirrormaker2_records.encode_checkpoint(own))
    running.later(60)
    assert running.emits() == []


def test_two_writers_who_know_the_same_come_to_rest(clusters, start):
    clusters.source.commit("g1", {T0: 20})
    clusters.synced(T0, 20, 20)
    both = [start(), start()]
    for each in both:
        each.load()
    for upstream in (20, 30, 25):
        clusters.source.commit("g1", {T0: upstream})
        clusters.synced(T0, upstream, upstream)
        for _ in range(3):
            for each in both:
                clusters.checkpoints_log += map(
                    mirrormaker2_records.encode_checkpoint, each.emits()
                )
                each.later(60)
        assert mirrormaker2_records.decode_checkpoint(*clusters.checkpoints_log[-1]) == point(
            upstream, upstream
        )
    assert len(clusters.checkpoints_log) <= 5


def test_what_stands_ahead_of_what_the_map_says_exactly_is_refuted(clusters, start):
    """It is of a topic that is no more; by syncs alone nothing of it could be told."""
    clusters.map_log = copied_map.log(T0, through=30, delta=-5)
    clusters.checkpoints_log.append(mirrormaker2_records.encode_checkpoint(point(20, 900)))
    clusters.source.commit("g1", {T0: 20})
    running = start()
    running.load()
    assert running.emits() == [point(20, 15)]


def test_what_stands_exactly_is_not_gone_behind_by_what_is_less_exact(clusters, start):
    clusters.map_log = copied_map.log(T0, through=30, delta=-5)
    clusters.checkpoints_log.append(mirrormaker2_records.encode_checkpoint(point(20, 15)))
    clusters.synced(T0, 10, 5)
    clusters.source.commit("g1", {T0: 20})
    clusters.map_failures.append(FORBIDDEN)
    running = start()
    running.load()
    assert running.emits() == []


def test_a_group_that_has_not_moved_is_looked_at_again_where_the_map_begins_anew(clusters, start):
    clusters.map_log = copied_map.log(T0, through=30, delta=-5)
    clusters.source.commit("g1", {T0: 20})
    running = start()
    running.load()
    assert running.emits() == [point(20, 15)]
    clusters.map_log += copied_map.log(T0, through=30, delta=-3)
    running.later(60)
    assert running.emits() == [point(20, 17)]


@pytest.mark.parametrize(("offset", "reads"), [(12, 0), (25, 0), (29, 0), (40, 4)])
def test_what_syncs_alone_tell_of_is_read_once_where_it_was_copied(clusters, start, offset, reads):
    """Java's stretches: what it copies later says nothing of what it copied before."""
    for each in (10, 28):
        clusters.synced(T0, each, each)
    clusters.source.commit("g1", {T0: offset})
    running = start()
    running.load()
    running.emits()
    seen = running.task._rounds._last_positions
    again = 0
    for _ in range(4):
        again += "g1" not in seen
        running.later(60)
        assert running.emits() == []
    assert again == reads


def test_what_was_not_copied_yet_is_exact_as_soon_as_it_is(clusters, start):
    clusters.map_log = copied_map.log(T0, through=30, delta=-5)
    clusters.source.commit("g1", {T0: 40})
    running = start()
    running.load()
    assert running.emits() == [point(40, 25)]
    clusters.map_log += copied_map.log(T0, through=50, delta=-5)[1:]
    running.later(60)
    assert running.emits() == [point(40, 35)]


def test_a_checkpoints_topic_that_is_another_one_now_gets_all_of_them(clusters, start, caplog):
    clusters.source.commit("g1", {T0: 20})
    clusters.synced(T0, 20, 20)
    running = start()
    running.load()
    assert running.emits() == [point(20, 20)]
    clusters.checkpoints_failures.append(LogTruncatedError("it is another one"))
    running.later(60)
    assert running.emits() == []
    running.later(checkpoint_task.ROUND_RETRY_DELAY_S)
    running.load()
    assert running.emits() == [point(20, 20)]
    assert "it is another one" in caplog.text


def test_many_groups_are_a_round_of_many_polls_and_the_next_one_is_later(clusters, start):
    names = [f"g{number:04}" for number in range(checkpoint_task.MAX_GROUPS_PER_STEP + 1)]
    places = [TopicPartition("orders", number) for number in range(9)]
    for name in names:
        clusters.source.commit(name, dict.fromkeys(places, 20))
    for place in places:
        clusters.synced(place, 20, 20)
    running = start(task_assigned_groups=",".join(names))
    running.load()
    polls = [len(running.poll()) for _ in range(4)]
    most = checkpoint_task.MAX_CHECKPOINTS_PER_STEP
    assert polls == [most, checkpoint_task.MAX_GROUPS_PER_STEP * 9 - most, 9, 0]
    assert not running.task._rounds.is_in_progress
    clusters.source.commit(names[7], {places[3]: 21})
    running.later(60)
    clusters.synced(places[3], 21, 21)
    (only,) = running.emits()
    assert (only.group, only.downstream) == (names[7], 21)


def test_a_source_that_goes_away_ends_the_round_and_nothing_is_lost(clusters, start):
    names = [f"g{number:04}" for number in range(checkpoint_task.MAX_GROUPS_PER_STEP + 1)]
    for name in names:
        clusters.source.commit(name, {T0: 20})
    clusters.synced(T0, 20, 20)
    running = start(task_assigned_groups=",".join(names))
    running.load()
    found = running.emits()
    clusters.source.failure = UNREACHABLE
    assert running.emits() == []
    clusters.source.failure = None
    running.later(checkpoint_task.ROUND_RETRY_DELAY_S)
    while running.task._rounds.is_in_progress or not found[len(names) - 1 :]:
        found += running.emits()
    assert [each.group for each in found] == names


def test_a_new_checkpoints_topic_is_waited_for_and_then_gone_without(clusters, start, caplog):
    clusters.source.commit("g1", {T0: 20})
    clusters.synced(T0, 20, 20)
    clusters.checkpoints_log = None
    running = start()
    running.load()
    assert caplog.records == [] or all(each.levelno < logging.WARNING for each in caplog.records)
    running.later(checkpoint_task.TOPIC_VISIBILITY_TIMEOUT_S)
    running.load()
    assert "published checkpoints cannot be read" in caplog.text
    assert running.emits() == [point(20, 20)]


def test_offset_syncs_that_come_later_are_looked_for_again(clusters, start, caplog):
    """KAFKA: Java's task runs on and never emits."""
    clusters.source.commit("g1", {T0: 20})
    missing = TopicMissingError("reading syncs: there is no topic")
    clusters.syncs_failures += [missing, UNREACHABLE]
    running = start()
    for _ in range(3):
        running.load()
        running.later(checkpoint_task.ROUND_RETRY_DELAY_S)
    assert caplog.text.count("there is no topic; retrying") == 1
    clusters.synced(T0, 20, 20)
    assert running.emits() == [point(20, 20)]


def test_bad_syncs_are_passed_over_and_the_others_count(clusters, start):
    clusters.source.commit("g1", {T0: 20})
    clusters.syncs_log += [(None, b"x"), (b"x", b"y")]
    clusters.synced(T0, 20, 20)
    running = start()
    running.load()
    assert running.emits() == [point(20, 20)]


def test_syncs_with_impossible_offsets_are_passed_over(clusters, start):
    """The offset after 2^63 - 1 could not be written."""
    clusters.source.commit("g1", {T0: 20})
    clusters.synced(T0, 10, 10)
    clusters.synced(T0, 19, (1 << 63) - 1)
    running = start()
    running.load()
    assert running.emits() == [point(20, 11)]


def test_one_group_whose_name_is_too_long_does_not_stand_in_the_others_way(clusters, start, caplog):
    for group in ("g1", "g" * 40_000):
        clusters.source.commit(group, {T0: 20})
    clusters.synced(T0, 20, 20)
    running = start(task_assigned_groups=f"g1,{'g' * 40_000}")
    running.load()
    assert running.emits() == [point(20, 20)]
    assert "has 40000 bytes" in caplog.text
    assert not running.task._rounds.is_complete


def test_one_group_that_cannot_be_read_does_not_stand_in_the_others_way(clusters, start, caplog):
    for group in ("g1", "g2"):
        clusters.source.commit(group, {T0: 20})
    clusters.synced(T0, 20, 20)
    clusters.source.failures["positions", "g2"] = FORBIDDEN
    running = start()
    running.load()
    assert running.emits() == [point(20, 20)]
    assert "not allowed (1 group)" in caplog.text
    clusters.source.failures.clear()
    running.later(60)
    assert running.emits() == [point(20, 20, group="g2")]


def test_a_source_that_is_away_is_asked_again_soon_and_told_of_once_a_minute(
    clusters, start, caplog
):
    clusters.source.commit("g1", {T0: 20})
    clusters.synced(T0, 20, 20)
    clusters.source.failure = UNREACHABLE
    running = start()
    running.load()
    for _ in range(12):
        assert running.emits() == []
        running.later(checkpoint_task.ROUND_RETRY_DELAY_S)
    assert caplog.text.count("emitting checkpoints: asking: nobody answers") == 1
    assert running.emits() == []
    assert caplog.text.count("emitting checkpoints: asking: nobody answers") == 2
    clusters.source.failure = None
    running.later(checkpoint_task.ROUND_RETRY_DELAY_S)
    assert running.emits() == [point(20, 20)]


def test_who_is_being_stopped_complains_of_nothing(clusters, start, caplog):
    clusters.source.failure = UNREACHABLE
    running = start()
    running.load()
    running.context.stopping = True
    assert clusters.gone()
    assert running.emits() == []
    assert "nobody answers" not in caplog.text


def test_no_poll_waits_longer_than_a_second(clusters, start):
    running = start()
    running.load()
    running.poll()
    waited = running.context.waited_s
    running.poll()
    assert running.context.waited_s - waited == checkpoint_task.POLL_INTERVAL_S


def latencies(running):
    """By group, those that are shown."""
    shown = {each.metric.name: each for each in running.context.metrics()}
    name = "kafka_connect_mirror_mirrorcheckpointconnector_checkpoint_latency_ms_max"
    return {labels[2]: value for labels, value in shown[name].series.items()}


def test_what_the_target_has_is_measured(clusters, start):
    clusters.source.commit("g1", {T0: 20})
    clusters.synced(T0, 20, 20)
    running = start()
    running.load()
    (record,) = running.poll()
    running.later(0.5)
    running.task.commit_record(record, None)
    assert latencies(running) == {}, "it was filtered"
    metadata = RecordMetadata(topic=record.topic, partition=0, offset=3)
    running.task.commit_record(record, metadata)
    assert latencies(running) == {"g1": 500}


def test_two_groups_have_latencies_of_their_own(clusters, start):
    """Java mixes them: all groups of a task share one sensor."""
    for group in ("g1", "g2"):
        clusters.source.commit(group, {T0: 20})
    clusters.synced(T0, 20, 20)
    running = start(metric_names_formats="legacy,new")
    running.load()
    for record in running.poll():
        running.later(0.5)
        metadata = RecordMetadata(topic=record.topic, partition=0, offset=3)
        running.task.commit_record(record, metadata)
    assert latencies(running) == {"g1": 500, "g2": 1000}
    shown = {each.metric.name: each.series for each in running.context.metrics()}
    task = ("c", "0", "A", "B")
    assert shown["kafka_connect_plugins_checkpoint_latency_ms_avg"] == {
        (*task, "g1", "A.orders", "0"): 500,
        (*task, "g2", "A.orders", "0"): 1000,
    }


def test_idle_groups_on_the_target_get_the_offsets_where_that_is_wanted(clusters, start):
    clusters.source.commit("g1", {T0: 20}, metadata="note")
    clusters.synced(T0, 20, 7)
    clusters.target_topics.create("A.orders")
    running = start(sync_group_offsets_enabled="true", sync_group_offsets_interval_seconds="10")
    running.load()
    assert len(running.poll()) == 1
    assert clusters.target.groups == {}
    assert running.poll() == []
    assert clusters.target.offsets("g1") == {MIRROR: 7}
    clusters.target.groups["g1"].state = GroupState.ACTIVE
    clusters.target.failure = UNREACHABLE
    running.later(10)
    assert running.poll() == [], "the target may be away"


def test_groups_on_the_target_are_left_alone_by_default(clusters, start):
    clusters.source.commit("g1", {T0: 20})
    clusters.synced(T0, 20, 7)
    running = start()
    running.load()
    for _ in range(3):
        running.poll()
        running.later(60)
    assert clusters.target.writes == []


def test_a_task_without_checkpoints_or_groups_is_no_task(clusters):
    task = MirrorCheckpointTask(clusters)
    task.initialize(Context())
    with pytest.raises(ConfigError, match="no checkpoints"):
        task.start({**PROPS, "emit.checkpoints.enabled": "false"})
    with pytest.raises(ConnectError, match=r"task\.assigned\.groups"):
        task.start({key: each for key, each in PROPS.items() if "groups" not in key})
    task.stop()
    assert task.version() == "4.3.1"


def test_a_task_without_a_number_is_called_so(clusters):
    task = MirrorCheckpointTask(clusters)
    task.initialize(Context())
    task.start({key: each for key, each in PROPS.items() if key != "task.index"})
    assert clusters.task == "?"
    task.stop()


def test_what_stands_of_its_groups_is_shown_to_who_asks(clusters, start):
    for name in ("billing", "shop", "shop-2"):
        clusters.source.commit(name, {T0: 20})
    clusters.synced(T0, 20, 7)
    running = start(task_assigned_groups="billing,shop,shop-2")
    (shown,) = status_registry.REGISTRY.get_snapshot().groups["A->B"].values()
    assert shown.last_round_wall_ms is None
    assert shown.find_groups("", 5) == GroupSearchResult(total_count=0, matching_count=0, groups={})
    running.load()
    running.stores()
    (number,) = status_registry.REGISTRY.get_snapshot().groups["A->B"]
    shown = status_registry.REGISTRY.get_snapshot().groups["A->B"][number]
    assert (number, shown.last_round_wall_ms) == (1, running.context.clock.wall_ms())
    assert shown.find_groups("shop", 1) == GroupSearchResult(
        total_count=3, matching_count=2, groups={"shop": [point(20, 7, group="shop")]}
    )
    running.task.stop()
    assert "A->B" not in status_registry.REGISTRY.get_snapshot().groups


def test_a_round_that_is_not_through_tells_no_time(clusters, start):
    names = [f"g{number:03}" for number in range(checkpoint_task.MAX_GROUPS_PER_STEP + 1)]
    for name in names:
        clusters.source.commit(name, {T0: 20})
    clusters.synced(T0, 20, 7)
    running = start(task_assigned_groups=",".join(names))
    running.load()
    for record in running.poll():
        running.acknowledge(record)
    (shown,) = status_registry.REGISTRY.get_snapshot().groups["A->B"].values()
    assert (shown.last_round_wall_ms, shown.find_groups("", 0).total_count) == (
        None,
        checkpoint_task.MAX_GROUPS_PER_STEP,
    )
    running.stores()
    (shown,) = status_registry.REGISTRY.get_snapshot().groups["A->B"].values()
    assert shown.last_round_wall_ms == running.context.clock.wall_ms()


def shown():
    (found,) = status_registry.REGISTRY.get_snapshot().groups["A->B"].values()
    return found


def test_a_round_in_which_a_group_could_not_be_read_tells_no_time(clusters, start):
    for name in ("billing", "shop"):
        clusters.source.commit(name, {T0: 20})
    clusters.synced(T0, 20, 7)
    clusters.source.failures["positions", "shop"] = FORBIDDEN
    running = start(task_assigned_groups="billing,shop")
    running.load()
    running.stores()
    assert (shown().last_round_wall_ms, shown().group_count) == (None, 0)
    clusters.source.failures.clear()
    running.later(60)
    running.stores()
    assert shown().last_round_wall_ms == running.context.clock.wall_ms()
    assert shown().group_count == 2


def test_a_round_tells_no_time_before_the_target_has_its_checkpoints(clusters, start):
    clusters.source.commit("g1", {T0: 20})
    clusters.synced(T0, 20, 7)
    running = start()
    begun_s = running.context.clock.now_s()
    assert (shown().started_s, shown().is_waiting) == (begun_s, True)
    running.load()
    (record,) = running.poll()
    running.later(60)
    assert running.poll() == [], "nothing new, and the last is still on its way"
    assert (shown().last_round_wall_ms, shown().last_completed_s) == (None, begun_s)
    running.acknowledge(record)
    running.poll()
    assert (shown().last_round_s, shown().is_waiting) == (begun_s + 60, False)


@pytest.mark.parametrize("of", ["map_failures", "syncs_failures", "checkpoints_failures"])
def test_a_round_in_which_a_topic_could_not_be_read_tells_no_time(clusters, start, of):
    clusters.map_log = copied_map.log(T0, through=30, delta=-5)
    running = start()
    running.load()
    running.poll()
    first_ms = shown().last_round_wall_ms
    assert first_ms == running.context.clock.wall_ms()
    getattr(clusters, of).append(UNREACHABLE)
    running.later(60)
    running.poll()
    assert shown().last_round_wall_ms == first_ms
    running.later(60)
    running.poll()
    assert shown().last_round_wall_ms == first_ms + 120_000


def test_groups_that_are_refused_on_the_target_tell_no_time(clusters, start):
    clusters.source.commit("g1", {T0: 20})
    clusters.synced(T0, 20, 7)
    clusters.target_topics.create("A.orders")
    clusters.target.failures["write", "g1"] = FORBIDDEN
    running = start(sync_group_offsets_enabled="true", sync_group_offsets_interval_seconds="10")
    running.load()
    running.stores()
    assert shown().last_round_wall_ms is not None
    assert (shown().last_write_s, shown().is_waiting) == (None, True)
    clusters.target.failures.clear()
    running.later(10)
    running.poll()
    assert shown().last_write_s == running.context.clock.now_s()
    assert shown().last_completed_s == shown().last_round_s


def test_the_source_moves_no_offsets_of_the_targets_own_topics(clusters, start):
    theirs = TopicPartition("B.payments", 0)
    clusters.source.commit("g1", {theirs: 20, T0: 20})
    clusters.synced(theirs, 20, 7)
    clusters.synced(T0, 20, 7)
    running = start()
    running.load()
    assert running.emits() == [point(20, 7)]


def test_published_checkpoints_of_the_targets_own_topics_are_skipped(clusters, start, caplog):
    """Silently: older releases and Java write such checkpoints, and they can be read."""
    forged = Checkpoint(
        group="g1", partition=TopicPartition("payments", 0), upstream=1, downstream=1, metadata=""
    )
    for each in (forged, point(20, 7)):
        clusters.checkpoints_log.append(mirrormaker2_records.encode_checkpoint(each))
    running = start()
    running.load()
    table = running.task._rounds.table
    assert list(table.get_group_checkpoints("g1")) == [MIRROR]
    assert "skipped" not in caplog.text


def test_whether_a_topic_should_checkpoint_topic_is_decided_once(clusters, start, monkeypatch):
    """A round processes all topics in the same order, so all of them must fit in the cache."""
    asked = []
    decide = topic_selection.should_checkpoint_topic

    def counted(flow, topic):
        asked.append(topic)
        return decide(flow, topic)

    monkeypatch.setattr(topic_selection, "should_checkpoint_topic", counted)
    rounds = start().task._rounds
    for topic in [f"topic{number}" for number in range(20_000)] * 2:
        assert rounds._takes_topic(topic)
    assert len(asked) == 20_000
