from __future__ import annotations

from tests.bench import life_report, results
from tests.bench.results import Recovery, Results, Start

SECONDS = {"java": 20.0, "java-tuned": 12.0, "mm2": 10.0, "mm2-inline": 4.0}


def measured(**more: object) -> Results:
    found = Results()
    for key, seconds in SECONDS.items():
        for kind in results.START_KINDS:
            given = {"first_s": seconds, "all_s": seconds + 1, "cpu_s": 9.0, "load": 2.5} | more
            found.add(Start(contestant=key, kind=kind, round=1, **given))  # type: ignore[arg-type] # keys of the class
    for key in ("java", "mm2", "mm2-inline"):
        for setting in ("equal", "defaults"):
            found.add(
                Recovery(
                    contestant=key,
                    setting=setting,
                    round=1,
                    again_s=SECONDS[key],
                    stood=4.0,
                    doubled=300.0 if key == "java" else 0.0,
                )
            )
    return found


def test_without_rows_there_is_nothing_to_say():
    nothing = Results()
    assert life_report.render(nothing) == life_report.brief(nothing) == ""
    assert life_report.expectations(nothing) == []


def test_all_stand_side_by_side():
    text = life_report.render(measured())
    assert text.count("\n| mm2 run, inline |") == 4
    assert text.count("\n| Java MirrorMaker 2, tuned |") == 2
    assert "| Java MirrorMaker 2, defaults | 20.0 | 4.00 | 300 | - |" in text
    assert "| mm2 run | 10.0 | 11.0 | 9.00 | 2.50 |" in text


def test_in_brief_each_kind_and_setting_is_a_line():
    lines = life_report.brief(measured()).splitlines()
    assert len(lines) == 2 + 2 * 3 + 2
    assert lines[2].endswith("| 20.0 | 12.0 | 10.0 | 4.00 |")
    assert lines[3].endswith("| 9.00 | 9.00 | 9.00 | 9.00 |")
    assert lines[-1].endswith("| 20.0 | - | 10.0 | 4.00 |")


def test_who_is_sooner_is_said_of_each_rival():
    found = life_report.expectations(measured())
    assert len(found) == 2 * 2 * 2 * 2 + 2 * 2
    assert all(each.met for each in found)
    assert (
        "- met: first record, cold start, sooner from mm2 run than from "
        "Java MirrorMaker 2, tuned: 1.20x"
    ) in [each.line for each in found]


def test_who_is_later_is_not_met():
    slow = measured()
    slow.starts = [
        Start(
            contestant=each.contestant,
            kind=each.kind,
            round=1,
            cpu_s=9.0,
            first_s=15.0 if each.contestant == "mm2" else each.first_s,
        )
        for each in slow.starts
    ]
    short = [each.text for each in life_report.expectations(slow) if not each.met]
    assert len(short) == 2
    assert all("mm2 run than from Java MirrorMaker 2, tuned" in each for each in short)


def test_faulty_ones_do_not_count_and_are_told():
    faulty = measured(fault="3 records lost")
    assert len(faulty.faults()) == 8
    assert "java, round 1, cold start: 3 records lost" in faulty.faults()
    lines = [each.line for each in life_report.expectations(faulty) if "first record" in each.text]
    assert {each.partition(":")[0] for each in lines} == {"- not measured"}
