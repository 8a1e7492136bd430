"""What a move is done with: how it waits, and how it reads the flow's map."""

from __future__ import annotations

from typing import Any

import pytest

from connect_runtime.base import errors
from mm2.app.failover import planning, tools
from mm2.cluster import map_reader, state_topics
from mm2.core import flows
from tests.fakes import copied_map, moves, two_sides


class Growing:
    """A map topic of which more is there at each read; what was read does not come again."""

    def __init__(self, *parts: list[Any]) -> None:
        self.left = list(parts)
        self.closed = 0

    def read_to_end(self, timeout_s: float) -> list[state_topics.TopicRecord]:
        return [
            state_topics.TopicRecord(topic="map", offset=0, key=key, value=value)
            for key, value in (self.left.pop(0) if self.left else ())
        ]

    def feed_to_end(self, timeout_s: float, take: state_topics.Take) -> None:
        for each in self.read_to_end(timeout_s):
            take(each)

    def close(self) -> None:
        self.closed += 1


def about(tail: Growing | None = None, told: list[str] | None = None) -> tools.Tools:
    both, clock = two_sides.FakeSides(flows.Flow(source="east", target="west")), moves.Clock()
    unused: Any = None
    return tools.Tools(
        both=both,
        map_reader=map_reader.MapReader(lambda: tail or Growing(), where="west"),
        planner=planning.Planner(both=both, find=lambda _: {}, clock=clock, timeout_s=10.0),
        stop=unused,
        running=unused,
        fence=unused,
        export=unused,
        clock=clock,
        pause=clock.pause,
        tell=(lambda _: None) if told is None else told.append,
        wait_s=10.0,
    )


def test_the_map_is_brought_up_to_date_and_not_read_anew():
    here, other = moves.HERE, moves.OTHER
    tail = Growing(
        copied_map.log(here, through=9, delta=1), copied_map.log(other, through=4, delta=1)
    )
    made = about(tail)
    assert made.known().partition(here).copied_to == 9
    known = made.known()
    assert (known.partition(here).copied_to, known.partition(other).copied_to) == (9, 4)
    made.close()
    assert tail.closed == 1


def test_what_fails_and_may_heal_is_waited_for():
    made, tries = about(), [errors.RetriableError("away"), False, True]

    def done() -> bool:
        found = tries.pop(0)
        if isinstance(found, errors.RetriableError):
            raise found
        return bool(found)

    made.await_(done, lambda: "never")
    assert tries == []


@pytest.mark.parametrize(("most_s", "said"), [(None, "after 10 s not yet"), (3.0, "after 3 s not")])
def test_what_never_comes_is_told(most_s: float | None, said: str):
    with pytest.raises(errors.RetriableError, match=said):
        about().await_(lambda: False, lambda: "not yet", most_s=most_s)


def test_what_is_waited_for_and_how_long_still_is_told_now_and_then():
    told: list[str] = []
    with pytest.raises(errors.RetriableError):
        about(told=told).await_(lambda: False, lambda: "not yet")
    assert told == ["waiting, 5 s more at most: not yet"]


def test_what_failed_last_is_told():
    def done() -> bool:
        raise errors.RetriableError("its coordinator is away")

    with pytest.raises(errors.RetriableError, match="after 10 s its coordinator is away"):
        about().await_(done, lambda: "not yet")
