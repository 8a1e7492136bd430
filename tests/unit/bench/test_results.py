from __future__ import annotations

from tests.bench.figures import Spread
from tests.bench.results import Copy, Results, Trickle


def copy(number: int, bytes_s: float | None, **more: object) -> Copy:
    given = {"contestant": "java", "topic": "big", "round": number, "bytes_s": bytes_s} | more
    return Copy(**given)  # type: ignore[arg-type] # keys of the class


def test_a_figure_is_spread_over_the_rounds_of_one_contestant_and_workload():
    measured = Results(
        copies=[
            copy(1, 40.0),
            copy(2, 50.0),
            copy(1, 900.0, contestant="mm2"),
            copy(1, 10.0, topic="small"),
        ]
    )
    of_big = measured.of_copies("java", "big", lambda each: each.bytes_s)
    assert of_big == Spread(median=45.0, low=40.0, high=50.0)
    of_all = measured.of_copies("java", None, lambda each: each.bytes_s)
    assert of_all == Spread(median=40.0, low=10.0, high=50.0)


def test_what_was_not_measured_does_not_count():
    measured = Results(copies=[copy(1, None), copy(2, 50.0)])
    of = measured.of_copies("java", "big", lambda each: each.bytes_s)
    assert of == Spread(median=50.0, low=50.0, high=50.0)


def test_a_faulty_copys_figures_do_not_count_and_its_fault_is_told():
    measured = Results(copies=[copy(1, 900.0, fault="partition 0 lost 3"), copy(2, 50.0)])
    of = measured.of_copies("java", "big", lambda each: each.bytes_s)
    assert of == Spread(median=50.0, low=50.0, high=50.0)
    assert measured.faults() == ["java, round 1, big: partition 0 lost 3"]
    assert measured.faulty("java", "big")
    assert not measured.faulty("java", "small")


def test_a_faulty_trickle_is_told_and_does_not_count():
    measured = Results(
        trickles=[
            Trickle(contestant="mm2", round=1, p50_ms=0.8),
            Trickle(contestant="mm2", round=2, p50_ms=0.1, fault="7 records never came"),
        ]
    )
    of = measured.of_trickles("mm2", lambda each: each.p50_ms)
    assert of == Spread(median=0.8, low=0.8, high=0.8)
    assert measured.faults() == ["mm2, round 2, latency: 7 records never came"]
