from __future__ import annotations

import pytest

from tests.bench import group_report, results
from tests.bench.results import Rebalance, Results

JAVA, OURS = results.CONNECT_OF.values()


def rebalance(contestant: str, change: str = "add", **more: object) -> Rebalance:
    given = {
        "contestant": contestant,
        "round": 1,
        "tasks": 300,
        "protocol": "sessioned",
        "delay_ms": 0,
        "change": change,
        "all_run_s": 4.5,
        "unneeded": 0.0,
    } | more
    return Rebalance(**given)  # type: ignore[arg-type] # keys of the class


def measured(**ours: object) -> Results:
    found = Results()
    for change in ("add", "kill", "bounce"):
        found.add(rebalance(JAVA, change, all_run_s=9.0, unneeded=7.0))
        found.add(rebalance(OURS, change, **ours))
    return found


def test_without_groups_there_is_nothing_to_say():
    nothing = Results()
    assert group_report.render(nothing) == group_report.brief(nothing) == ""
    assert group_report.expectations(nothing) == []


def test_both_stand_side_by_side_in_a_table_for_each_setting():
    found = measured()
    found.add(rebalance(OURS, protocol="eager", delay_ms=10_000))
    text = group_report.render(found)
    assert "**300 tasks, sessioned, no delay**" in text
    assert "**300 tasks, eager, reassignment delay 10 s**" in text
    assert "| one of three workers is killed: Java Connect | 9.00 | - | - | 7.00 | - | - |" in text
    assert (
        "| one of three workers is killed: connect_runtime | 4.50 | - | - | 0.00 | - | - |" in text
    )


def test_in_brief_a_change_is_a_line():
    text = group_report.brief(measured())
    assert (
        "| one of three workers is killed; 300 tasks, sessioned, no delay "
        "| 9.00 | 4.50 | 7.00 | 0.00 |" in text
    )


def test_what_holds_is_met():
    found = group_report.expectations(measured())
    assert len(found) == 6
    assert all(each.met for each in found)
    assert found[0].line == (
        "- met: all 300 tasks run within 10 s: 300 tasks, sessioned, no delay, "
        "a third worker joins: 4.50 s"
    )


@pytest.mark.parametrize(
    ("figure", "value", "word"),
    [("all_run_s", 10.01, "within 10 s"), ("unneeded", 1.0, "unnecessarily")],
)
def test_what_does_not_is_not(figure, value, word):
    found = group_report.expectations(measured(**{figure: value}))
    short = [each.text for each in found if not each.met]
    assert len(short) == 3
    assert all(word in each for each in short)


def test_faulty_ones_do_not_count():
    found = group_report.expectations(measured(fault="1 do not run: c-0"))
    assert {each.line.partition(":")[0] for each in found} == {"- not measured"}
    assert len(measured(fault="1 do not run: c-0").faults()) == 3


def test_eager_workers_stop_everything_and_delays_take_as_long_as_they_take():
    eager = Results(rebalances=[rebalance(OURS, protocol="eager")])
    assert all("within" in each.text for each in group_report.expectations(eager))
    delayed = Results(rebalances=[rebalance(OURS, delay_ms=10_000)])
    assert all("unnecessarily" in each.text for each in group_report.expectations(delayed))
