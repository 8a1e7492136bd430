"""Writers are locked out of all that answers, and what does not is waited for no longer than it
takes.

Who is locked out, and who has taken a partition since."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from connect_runtime.base.clock_and_deadline import Deadline
from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.system.system_clock import SystemClock
from mm2.clusters import fencing_results, log_end_offsets
from mm2.clusters.fencing_results import FencingResult
from mm2.clusters.log_end_offsets import NoLeaderError
from mm2.copier.blocking_client import BrokerResponseError
from mm2.copier.partition_fencer import BrokerRefusal, PartitionFence, ProducerIdAndEpoch
from mm2.failover import failover_context, flow_stop, writer_fencing
from mm2.failover.failover_context import FailoverContext
from mm2.failover.failover_planner import FailoverPlanner
from mm2.failover.failover_request import FailoverKind
from mm2.failover.partition_thread_pool import PartitionThreadPool
from mm2.failover.writer_fencing import (
    FencingContestedError,
    FencingRefusedError,
    FencingRounds,
    PartiallyFencedError,
)
from mm2.formats import offset_map_records, record_batch
from mm2.formats.offset_map_records import MapProducer, MapProducerKey
from mm2.formats.record_batch import BatchHeader
from mm2.offsets.offset_map import OffsetMap
from mm2.topics.flow_config import Flow
from tests.fakes import batches, copied_map, moves
from tests.fakes.batches import Record, Stamp
from tests.fakes.moves import Clock, also_copied, east_and_west, wanted
from tests.fakes.two_sides import FakeSides

AWAY = TopicPartition("east.orders", 1)
WAIT_S = 600.0
HANGS = fencing_results.format_reason_for_accepted_unfenced_mirror("its broker does not respond")


class Scene:
    """Two partitions whose mirrors have a leader each; `failing` do not answer when they are
    fenced, `contested` are taken by somebody else. The second leader hangs, unless it is told
    otherwise. The flow can be stopped `stops` times."""

    def __init__(self, folder: Path) -> None:
        self.world = east_and_west(folder)
        also_copied(self.world)
        self.target = self.world.sides.target
        self.target.cluster.topics["east.orders"].leaders = (1, 2)
        self.target.logs.unheard = {AWAY}
        self.clock = Clock()
        self.asked: list[list[TopicPartition]] = []
        self.failing: set[TopicPartition] = set()
        self.contested: set[TopicPartition] = set()
        self.stops = 10_000
        self.told: list[str] = []

    def fence(self, known: Any, partitions: Collection[TopicPartition]) -> list[FencingResult]:
        self.asked.append(list(partitions))
        found = [
            FencingResult(
                partition=each, marker=moves.COPIED + moves.DELTA, owner_order=(1, 1), tail=0
            )
            for each in partitions
            if each not in self.failing | self.contested
        ]
        if len(found) < len(partitions):
            self.clock.pause(10.0)
            raise PartiallyFencedError(
                "fencing for 10 s: no coordinator",
                found,
                silent=dict.fromkeys(self.failing.intersection(partitions), "no coordinator"),
                refused=dict.fromkeys(self.contested.intersection(partitions), "47"),
            )
        return found

    def stop(self) -> list[str]:
        self.stops -= 1
        if self.stops < 0:
            raise RetriableError("stopping the flow: its config topic has no leader")
        return self.world.stop()

    def turns(self, *, leaves: bool) -> tuple[FencingRounds, FailoverContext]:
        both = self.world.sides
        about = FailoverContext(
            clusters=both,
            map_reader=both.target.open_offset_map_reader("east"),
            planner=FailoverPlanner(
                clusters=both, find_unreplicated=lambda _: {}, clock=self.clock, timeout_s=9.0
            ),
            stop_connectors=self.stop,
            list_running_tasks=self.world.running,
            fence_partitions=self.fence,
            export_records=lambda *_: 0,
            clock=self.clock,
            sleep=self.clock.pause,
            print_line=self.told.append,
            wait_s=WAIT_S,
        )
        return FencingRounds(about, leaves=leaves), about

    def run(self, *, leaves: bool) -> dict[TopicPartition, str]:
        """Why nobody is locked out, by partition."""
        turns, about = self.turns(leaves=leaves)
        about.wait_for_condition(turns.run_round, turns.explain_next_round)
        return {each.partition: each.unfenced_reason for each in turns.results.values()}

    def close(self) -> dict[TopicPartition, str]:
        """The same of the whole step, where what does not respond may be left."""
        _, about = self.turns(leaves=True)
        asked = wanted(FailoverKind.EMERGENCY, accepted=frozenset({"mirror-unknown"}))
        return {each.partition: each.unfenced_reason for each in flow_stop.fence_flow(about, asked)}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_who_hangs_is_left_once_he_is_as_good_as_dead(scene: Scene):
    """And not when all time to wait is up."""
    assert scene.run(leaves=True) == {moves.HERE: "", moves.OTHER: HANGS}
    assert (
        writer_fencing.UNREACHABLE_TIMEOUT_S
        <= scene.clock.s
        < writer_fencing.UNREACHABLE_TIMEOUT_S + 3
    )
    assert scene.asked[0] == [moves.HERE]


def test_it_is_told_what_is_waited_for_and_for_how_long(scene: Scene):
    scene.run(leaves=True)
    assert len(scene.told) == 5
    assert (
        "the mirror of orders-1 does not respond (its broker does not respond); "
        "left unfenced after 25 s more" in scene.told[0]
    )
    assert "; left unfenced after 5 s more, as accepted" in scene.told[-1]


def test_where_that_is_not_accepted_it_is_waited_for_and_the_way_on_is_told(scene: Scene):
    with pytest.raises(RetriableError, match=r"does not respond.*--accept mirror-unknown"):
        scene.run(leaves=False)
    assert scene.clock.s >= WAIT_S
    assert "--accept mirror-unknown" in scene.told[0]


def test_who_answers_again_is_fenced(scene: Scene):
    turns, _ = scene.turns(leaves=True)
    with pytest.raises(RetriableError, match="orders-1"):
        turns.run_round()
    scene.clock.pause(writer_fencing.UNREACHABLE_TIMEOUT_S - 1)
    scene.target.logs.unheard = set()
    assert turns.run_round()
    assert {each.unfenced_reason for each in turns.results.values()} == {""}


def test_another_that_leads_it_by_now_is_asked(scene: Scene):
    turns, _ = scene.turns(leaves=True)
    with pytest.raises(RetriableError):
        turns.run_round()
    scene.target.cluster.topics["east.orders"].leaders = (1, 1)
    scene.target.logs.unheard = set()
    assert turns.run_round()
    assert scene.asked == [[moves.HERE], [moves.OTHER]]


def test_what_nobody_leads_is_left_at_once_where_that_is_accepted(scene: Scene):
    scene.target.cluster.topics["east.orders"].leaders = (1, None)
    assert scene.run(leaves=True) == {
        moves.HERE: "",
        moves.OTHER: fencing_results.format_reason_for_accepted_unfenced_mirror("it has no leader"),
    }
    assert scene.clock.s <= failover_context.POLL_INTERVAL_S


def test_who_answers_and_cannot_be_fenced_is_tried_last_and_left(scene: Scene):
    """Its coordinator hangs."""
    scene.target.logs.unheard = set()
    scene.failing = {moves.HERE}
    assert scene.run(leaves=True) == {
        moves.HERE: fencing_results.format_reason_for_accepted_unfenced_mirror("no coordinator"),
        moves.OTHER: "",
    }
    assert scene.asked[:2] == [[moves.HERE, moves.OTHER], [moves.HERE]]
    assert scene.clock.s < 2 * writer_fencing.UNREACHABLE_TIMEOUT_S


def test_who_cannot_be_fenced_is_told_with_the_way_on(scene: Scene):
    scene.target.logs.unheard = set()
    scene.failing = {moves.HERE}
    with pytest.raises(RetriableError, match=r"no coordinator\. To leave it unfenced: --accept"):
        scene.run(leaves=False)


def test_a_broker_that_refuses_an_answer_is_not_silent(scene: Scene):
    scene.target.logs.unheard = set()
    scene.target.logs.failures[AWAY] = FatalError("we may not describe it")
    assert scene.run(leaves=False) == {moves.HERE: "", moves.OTHER: ""}


def test_what_cannot_be_described_is_not_taken_for_what_nobody_leads(scene: Scene):
    """And it is told why."""
    scene.target.logs.unheard = set()
    late = RetriableError("describing topic east.orders: REQUEST_TIMED_OUT")
    scene.target.cluster.failures["describe_topics", "east.orders"] = late
    left = fencing_results.format_reason_for_accepted_unfenced_mirror(str(late))
    assert scene.run(leaves=True) == {moves.HERE: left, moves.OTHER: left}
    assert scene.clock.s >= writer_fencing.UNREACHABLE_TIMEOUT_S
    assert "REQUEST_TIMED_OUT" in scene.told[0]


def test_who_takes_a_partition_meanwhile_is_not_left_it(scene: Scene):
    """He answers: that he may be out of reach is all that was accepted."""
    scene.target.logs.unheard = set()
    scene.contested = {moves.HERE}
    with pytest.raises(RetriableError, match=r"after 600 s.* responds: orders-0 \(47\)"):
        scene.close()


def test_who_hangs_after_he_took_a_partition_is_left(scene: Scene):
    scene.target.logs.unheard = set()
    scene.contested = {moves.OTHER}
    turns, _ = scene.turns(leaves=True)
    for unheard in ({AWAY}, {AWAY}):
        with pytest.raises(RetriableError):
            turns.run_round()
        scene.target.logs.unheard = unheard
    turns.record_unresponsive_partitions()
    assert turns.results[moves.OTHER].unfenced_reason == HANGS


def test_nobody_is_left_by_what_an_earlier_turn_knew(scene: Scene):
    """The flow cannot be stopped any more: nothing of this turn is known."""
    scene.target.logs.unheard = set()
    scene.failing = {moves.HERE, moves.OTHER}
    scene.stops = 1
    with pytest.raises(RetriableError, match="its config topic has no leader"):
        scene.close()


def test_what_was_not_begun_in_time_is_told_as_that(scene: Scene):
    scene.target.logs.unheard = set()
    scene.failing = {moves.HERE}
    turns, about = scene.turns(leaves=True)

    def fence(known: Any, partitions: Collection[TopicPartition]) -> list[FencingResult]:
        raise PartiallyFencedError("time is up", (), silent={moves.HERE: "no coordinator"})

    object.__setattr__(about, "fence_partitions", fence)
    with pytest.raises(RetriableError):
        turns.run_round()
    turns.record_unresponsive_partitions()
    assert turns.results[
        moves.HERE
    ].unfenced_reason == fencing_results.format_reason_for_accepted_unfenced_mirror(
        "no coordinator"
    )
    assert "before fencing was attempted" in turns.results[moves.OTHER].unfenced_reason


def test_the_way_on_is_told_only_where_somebody_does_not_answer(scene: Scene):
    scene.target.logs.unheard = set()
    scene.contested = {moves.HERE}
    turns, _ = scene.turns(leaves=False)
    with pytest.raises(RetriableError, match=r"no coordinator$"):
        turns.run_round()
    scene.failing = {moves.OTHER}
    turns, _ = scene.turns(leaves=False)
    with pytest.raises(RetriableError, match=r"--accept mirror-unknown$"):
        turns.run_round()


HERE, THERE = TopicPartition("orders", 0), TopicPartition("east.orders", 0)
OURS, OTHER = 70, 90
COPIED, DELTA = 10, 5
CLOCK = SystemClock()


def known(*, producers: dict[int, int] | None = None) -> OffsetMap:
    """Copied under ordinal 1, epoch 0; `producers`: ordinals by id."""
    found = OffsetMap()
    for key, value in copied_map.log(HERE, through=COPIED, delta=DELTA):
        found.apply_record(key or b"", value)
    for producer, ordinal in (producers or {OURS: 1}).items():
        name = MapProducerKey(topic="orders", partition=0, producer_id=producer)
        about = MapProducer(ordinal=ordinal, era=1)
        found.apply_record(
            offset_map_records.encode_map_key(name), offset_map_records.encode_map_value(about)
        )
    return found


@dataclass
class Place:
    """A partition whose marker is written at its end."""

    partition: TopicPartition = THERE
    owner: Any = field(default_factory=lambda: ProducerIdAndEpoch(id=OURS, epoch=4))
    refused: Any = None
    marker: int | None = 18
    log: list[bytes] = field(default_factory=list)

    def find_start_offset(self) -> int:
        return 0

    def fence_partition(self) -> Any:
        if self.refused is not None or self.marker is None:
            return self.refused
        return PartitionFence(producer=self.owner, marker_offset=self.marker, leader_epoch=0)

    def read_batches(self, offset: int) -> list[tuple[BatchHeader, memoryview]]:
        found = [
            (record_batch.read_batch_header(memoryview(each)), memoryview(each))
            for each in self.log
        ]
        return [each for each in found if each[0].last_offset >= offset]


def batch(base: int, count: int, producer: int) -> bytes:
    made = [Record(value=b"x", timestamp=1) for _ in range(count)]
    return batches.data(made, Stamp(base_offset=base, producer_id=producer))


def fence(place: Place, found: OffsetMap | None = None) -> FencingResult:
    about = (found or known()).get_partition(HERE)
    end = Deadline.after(30.0, now_s=CLOCK.now_s())
    stands_in: Any = place
    return writer_fencing._fence_partition(HERE, about, stands_in, clock=CLOCK, end=end)


TAIL = [batch(15, 2, OURS), batch(17, 1, OTHER)]


def test_the_flows_records_behind_its_map_are_counted():
    found = fence(Place(log=TAIL))
    assert (found.marker, found.owner_order, found.tail, found.unfenced_reason) == (
        18,
        (1, 4),
        2,
        "",
    )


def test_what_cannot_be_counted_is_unknown(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("mm2.failover.foreign_record_scan.MAX_SCAN_BYTES", 0)
    assert fence(Place(log=TAIL)).tail is None


def test_without_the_right_nobody_is_locked_out():
    found = fence(
        Place(refused=BrokerRefusal(code=writer_fencing.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    )
    assert (found.marker, found.tail) == (None, None)
    assert "not authorized" in found.unfenced_reason


def test_another_producer_id_locks_nobody_out():
    found = fence(Place(owner=ProducerIdAndEpoch(id=OTHER, epoch=0), log=TAIL))
    assert "expired" in found.unfenced_reason
    assert found.owner_order == (1, 0)
    assert found.tail == 2


@pytest.mark.parametrize("code", [47, 48, 49, 90])
def test_who_is_taken_over_meanwhile_tries_again(code):
    with pytest.raises(RetriableError, match=r"; another process seems to replicate it$"):
        fence(Place(refused=BrokerRefusal(code=code)))


def test_what_else_is_answered_is_told_as_it_is():
    """Nobody is blamed for it."""
    with pytest.raises(FencingRefusedError, match="UNKNOWN_SERVER_ERROR") as caught:
        fence(Place(refused=BrokerRefusal(code=-1)))
    assert not isinstance(caught.value, FencingContestedError)


@pytest.mark.parametrize(
    ("code", "right"), [(29, "READ and WRITE on the topic"), (31, "IDEMPOTENT_WRITE")]
)
@pytest.mark.parametrize("raised", [False, True])
def test_a_right_that_is_missing_is_told_at_once(
    code: int, right: str, raised: bool, monkeypatch: pytest.MonkeyPatch
):
    """Waiting gives nobody a right; brokers tell of it with the end and the marker, too."""
    place = Place(refused=BrokerRefusal(code=code))

    def lock_out() -> Any:
        raise BrokerResponseError("reading the log end of east.orders-0", code)

    if raised:
        monkeypatch.setattr(place, "fence_partition", lock_out)
    with pytest.raises(FatalError, match=rf"_AUTHORIZATION_FAILED .* needs .*{right}"):
        fence(place)


def test_a_marker_that_is_not_seen_fences_nobody():
    with pytest.raises(RetriableError, match="did not become readable"):
        fence(Place(marker=None))


class Silent:
    """A cluster of which nobody leads anything."""

    def __enter__(self) -> Silent:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def find_leader(self, topic: str, partition: int) -> int:
        raise RetriableError(f"nobody leads {topic}-{partition}")


def test_what_could_not_be_fenced_in_time_is_named():
    stands_in: Any = Silent()
    with pytest.raises(PartiallyFencedError, match=r"0 of 1 .* nobody leads east") as caught:
        writer_fencing.fence_partitions(
            Flow(source="east", target="west"),
            known(),
            [HERE],
            pool=PartitionThreadPool(connect=lambda: stands_in, clock=CLOCK),
            timeout_s=0.3,
        )
    assert caught.value.fenced == []


@pytest.mark.parametrize("code", [None, 47, -1])
def test_what_somebody_else_takes_has_answered(code, monkeypatch: pytest.MonkeyPatch):
    """It is not left to him as one that hangs is."""
    refused = None if code is None else BrokerRefusal(code=code)
    place = Place(refused=refused, marker=None)
    monkeypatch.setattr(writer_fencing, "PartitionFencer", lambda *_, **__: place)
    stands_in: Any = Silent()
    with pytest.raises(PartiallyFencedError) as caught:
        writer_fencing.fence_partitions(
            Flow(source="east", target="west"),
            known(),
            [HERE],
            pool=PartitionThreadPool(connect=lambda: stands_in, clock=CLOCK),
            timeout_s=0.3,
        )
    assert caught.value.unanswered.keys() == ({HERE} if code is None else set())
    assert caught.value.refused.keys() == (set() if code is None else {HERE})


def test_who_hangs_is_asked_once_for_all_that_he_leads():
    """And who refuses an answer is not silent: fencing it is tried."""
    sides = FakeSides(Flow(source="east", target="west"))
    nobody = NoLeaderError(log_end_offsets.NO_LEADER)
    leaders: tuple[int | ConnectError, ...] = (0, 1, 0, 1, nobody)
    led = {TopicPartition("orders", number): each for number, each in enumerate(leaders)}
    for number in range(5):
        sides.target.log("east.orders", 3, partition=number)
    sides.target.logs.unheard = {TopicPartition("east.orders", 1)}
    no_right = FatalError("we may not")
    sides.target.logs.failures = {TopicPartition("east.orders", 2): no_right}
    found = writer_fencing.find_unresponsive_partitions(sides, led, clock=CLOCK)
    assert {each.partition: why for each, why in found.items()} == {
        1: "its broker does not respond",
        3: "its broker does not respond",
        4: "it has no leader",
    }


def test_why_a_topic_could_not_be_described_is_kept():
    """It may well have a leader."""
    sides = FakeSides(Flow(source="east", target="west"))
    sides.target.log("east.orders", 3)
    late = RetriableError("describing topic east.orders: REQUEST_TIMED_OUT")
    sides.target.cluster.failures["describe_topics", "east.orders"] = late
    led = writer_fencing.find_partitions_to_fence(sides, known(), timeout_s=9.0)
    assert led == {HERE: late}
    assert writer_fencing.find_unresponsive_partitions(sides, led, clock=CLOCK) == {HERE: str(late)}


def test_a_mirror_that_is_no_more_is_not_fenced():
    sides = FakeSides(Flow(source="east", target="west"))
    assert writer_fencing.find_partitions_to_fence(sides, known(), timeout_s=9.0) == {}
