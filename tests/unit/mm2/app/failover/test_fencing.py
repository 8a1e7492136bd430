"""Who is locked out, and who has taken a partition since."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from connect_runtime.base import deadline, errors, ids
from connect_runtime.system import clock as system_clock
from mm2.app.failover import crews, fencing
from mm2.app.looks import partition_ends
from mm2.core import flows
from mm2.core.failover import fences
from mm2.core.offsets import offset_map
from mm2.formats import map_record, record_batch
from mm2.pipeline import fenced_partition, single_questions
from tests.fakes import batches, copied_map, two_sides

HERE, THERE = ids.TopicPartition("orders", 0), ids.TopicPartition("east.orders", 0)
OURS, OTHER = 70, 90
COPIED, DELTA = 10, 5
CLOCK = system_clock.SystemClock()


def known(*, producers: dict[int, int] | None = None) -> offset_map.OffsetMap:
    """Copied under ordinal 1, epoch 0; `producers`: ordinals by id."""
    found = offset_map.OffsetMap()
    for key, value in copied_map.log(HERE, through=COPIED, delta=DELTA):
        found.apply(key or b"", value)
    for producer, ordinal in (producers or {OURS: 1}).items():
        name = map_record.ProducerKey(topic="orders", partition=0, producer_id=producer)
        about = map_record.Producer(ordinal=ordinal, era=1)
        found.apply(map_record.encode_key(name), map_record.encode_value(about))
    return found


@dataclass
class Place:
    """A partition whose marker is written at its end."""

    partition: ids.TopicPartition = THERE
    owner: Any = field(default_factory=lambda: fenced_partition.Owner(id=OURS, epoch=4))
    refused: Any = None
    marker: int | None = 18
    log: list[bytes] = field(default_factory=list)

    def start(self) -> int:
        return 0

    def lock_out(self) -> Any:
        if self.refused is not None or self.marker is None:
            return self.refused
        return fenced_partition.LockedOut(owner=self.owner, marker=self.marker, leader_epoch=0)

    def batches(self, offset: int) -> list[tuple[record_batch.BatchHeader, memoryview]]:
        found = [
            (record_batch.read_header(memoryview(each)), memoryview(each)) for each in self.log
        ]
        return [each for each in found if each[0].last_offset >= offset]


def batch(base: int, count: int, producer: int) -> bytes:
    made = [batches.Record(value=b"x", timestamp=1) for _ in range(count)]
    return batches.data(made, batches.Stamp(base_offset=base, producer_id=producer))


def fence(place: Place, found: offset_map.OffsetMap | None = None) -> fences.Fenced:
    about = (found or known()).partition(HERE)
    end = deadline.Deadline.after(30.0, now_s=CLOCK.now_s())
    stands_in: Any = place
    return fencing._fence(HERE, about, stands_in, clock=CLOCK, end=end)


TAIL = [batch(15, 2, OURS), batch(17, 1, OTHER)]


def test_the_flows_records_behind_its_map_are_counted():
    found = fence(Place(log=TAIL))
    assert (found.marker, found.order, found.tail, found.unfenced) == (18, (1, 4), 2, "")


def test_what_cannot_be_counted_is_unknown(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("mm2.app.failover.scans.BYTES_MAX", 0)
    assert fence(Place(log=TAIL)).tail is None


def test_without_the_right_nobody_is_locked_out():
    found = fence(Place(refused=fenced_partition.Refused(code=fencing.NO_RIGHT)))
    assert (found.marker, found.tail) == (None, None)
    assert "no right" in found.unfenced


def test_another_producer_id_locks_nobody_out():
    found = fence(Place(owner=fenced_partition.Owner(id=OTHER, epoch=0), log=TAIL))
    assert "expired" in found.unfenced
    assert found.order == (1, 0)
    assert found.tail == 2


@pytest.mark.parametrize("code", [47, 48, 49, 90])
def test_who_is_taken_over_meanwhile_tries_again(code):
    with pytest.raises(errors.RetriableError, match=r"; somebody else seems to copy it$"):
        fence(Place(refused=fenced_partition.Refused(code=code)))


def test_what_else_is_answered_is_told_as_it_is():
    """Nobody is blamed for it."""
    with pytest.raises(fencing.RefusedError, match="UNKNOWN_SERVER_ERROR") as caught:
        fence(Place(refused=fenced_partition.Refused(code=-1)))
    assert not isinstance(caught.value, fencing.ContestedError)


@pytest.mark.parametrize(
    ("code", "right"), [(29, "READ and WRITE on the topic"), (31, "IDEMPOTENT_WRITE")]
)
@pytest.mark.parametrize("raised", [False, True])
def test_a_right_that_is_missing_is_told_at_once(
    code: int, right: str, raised: bool, monkeypatch: pytest.MonkeyPatch
):
    """Waiting gives nobody a right; brokers tell of it with the end and the marker, too."""
    place = Place(refused=fenced_partition.Refused(code=code))

    def lock_out() -> Any:
        raise single_questions.AnsweredError("asking for the end of east.orders-0", code)

    if raised:
        monkeypatch.setattr(place, "lock_out", lock_out)
    with pytest.raises(errors.FatalError, match=rf"_AUTHORIZATION_FAILED .* needs .*{right}"):
        fence(place)


def test_a_marker_that_is_not_seen_fences_nobody():
    with pytest.raises(errors.RetriableError, match="did not become readable"):
        fence(Place(marker=None))


class Silent:
    """A cluster of which nobody leads anything."""

    def __enter__(self) -> Silent:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def leader(self, topic: str, partition: int) -> int:
        raise errors.RetriableError(f"nobody leads {topic}-{partition}")


def test_what_could_not_be_fenced_in_time_is_named():
    stands_in: Any = Silent()
    with pytest.raises(fencing.PartlyFencedError, match=r"0 of 1 .* nobody leads east") as caught:
        fencing.fence(
            flows.Flow(source="east", target="west"),
            known(),
            [HERE],
            crew=crews.Crew(connect=lambda: stands_in, clock=CLOCK),
            timeout_s=0.3,
        )
    assert caught.value.fenced == []


@pytest.mark.parametrize("code", [None, 47, -1])
def test_what_somebody_else_takes_has_answered(code, monkeypatch: pytest.MonkeyPatch):
    """It is not left to him as one that hangs is."""
    refused = None if code is None else fenced_partition.Refused(code=code)
    place = Place(refused=refused, marker=None)
    monkeypatch.setattr(fenced_partition, "FencedPartition", lambda *_, **__: place)
    stands_in: Any = Silent()
    with pytest.raises(fencing.PartlyFencedError) as caught:
        fencing.fence(
            flows.Flow(source="east", target="west"),
            known(),
            [HERE],
            crew=crews.Crew(connect=lambda: stands_in, clock=CLOCK),
            timeout_s=0.3,
        )
    assert caught.value.silent.keys() == ({HERE} if code is None else set())
    assert caught.value.refused.keys() == (set() if code is None else {HERE})


def test_who_hangs_is_asked_once_for_all_that_he_leads():
    """And who refuses an answer is not silent: fencing it is tried."""
    sides = two_sides.FakeSides(flows.Flow(source="east", target="west"))
    nobody = partition_ends.NoLeaderError(partition_ends.NO_LEADER)
    leaders: tuple[int | errors.ConnectError, ...] = (0, 1, 0, 1, nobody)
    led = {ids.TopicPartition("orders", number): each for number, each in enumerate(leaders)}
    for number in range(5):
        sides.target.log("east.orders", 3, partition=number)
    sides.target.logs.unheard = {ids.TopicPartition("east.orders", 1)}
    no_right = errors.FatalError("we may not")
    sides.target.logs.failures = {ids.TopicPartition("east.orders", 2): no_right}
    found = fencing.silent(sides, led, clock=CLOCK)
    assert {each.partition: why for each, why in found.items()} == {
        1: "its broker does not answer",
        3: "its broker does not answer",
        4: "no broker leads it",
    }


def test_why_a_topic_could_not_be_described_is_kept():
    """It may well have a leader."""
    sides = two_sides.FakeSides(flows.Flow(source="east", target="west"))
    sides.target.log("east.orders", 3)
    late = errors.RetriableError("describing topic east.orders: REQUEST_TIMED_OUT")
    sides.target.cluster.failures["describe_topics", "east.orders"] = late
    led = fencing.to_fence(sides, known(), timeout_s=9.0)
    assert led == {HERE: late}
    assert fencing.silent(sides, led, clock=CLOCK) == {HERE: str(late)}


def test_a_mirror_that_is_no_more_is_not_fenced():
    sides = two_sides.FakeSides(flows.Flow(source="east", target="west"))
    assert fencing.to_fence(sides, known(), timeout_s=9.0) == {}
