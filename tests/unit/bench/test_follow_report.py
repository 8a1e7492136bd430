from __future__ import annotations

from tests.bench import follow_report
from tests.bench.results import Following, Rereading, Results


def measured(*, again: float = 0.0) -> Results:
    found = Results()
    for key, seconds in (("java", 12.0), ("mm2-inline", 4.0)):
        found.add(
            Following(
                contestant=key,
                round=1,
                groups=5_000,
                partitions=20,
                first_s=9 * seconds,
                moved_s=2 * seconds,
                synced_s=3 * seconds,
                one_s=seconds,
                idle_cpu_s=seconds / 2,
                moved_cpu_s=seconds * 1.5,
                peak_bytes=seconds * 50e6,
                load=1.0,
            )
        )
        for case in follow_report.CASES:
            found.add(
                Rereading(
                    contestant=key,
                    case=case,
                    round=1,
                    groups=20.0,
                    untold=1.0,
                    median=100.0 if key == "java" else 0.0,
                    most=900.0 if key == "java" else again,
                    total=7_000.0 if key == "java" else again,
                )
            )
    return found


def test_without_rows_there_is_nothing_to_say():
    nothing = Results()
    assert follow_report.render(nothing) == follow_report.brief(nothing) == ""
    assert follow_report.expectations(nothing) == []


def test_both_stand_side_by_side():
    text = follow_report.render(measured())
    assert (
        "\n| Java MirrorMaker 2 | 12.0 | 24.0 | 36.0 | 18.0 | 6.00 | 108 | 600 | 1.00 |\n" in text
    )
    assert "\n| a compacted topic: Java MirrorMaker 2 | 20.0 | 1.00 | 100 | 900 | 7,000 |\n" in text
    assert "\n| plain records: mm2 run, inline | 20.0 | 1.00 | 0.00 | 0.00 | 0.00 |\n" in text
    assert "NOT met" not in text
    assert text.count("- met: ") == 5 + len(follow_report.CASES)


def test_in_brief_each_figure_and_each_kind_of_traffic_is_a_line():
    lines = follow_report.brief(measured()).splitlines()
    assert len(lines) == 2 + 8 + len(follow_report.CASES)
    assert lines[2].endswith(" is on the target after, s | 12.0 | 4.00 |")
    assert lines[-1].endswith("| 7,000 | 0.00 |")


def test_one_record_again_is_one_too_many():
    found = follow_report.expectations(measured(again=1.0))
    assert [each.met for each in found].count(False) == len(follow_report.CASES)


def test_alone_there_is_nothing_to_be_better_than():
    alone = measured()
    alone.followings = [each for each in alone.followings if each.contestant != "java"]
    assert len(follow_report.expectations(alone)) == 1 + len(follow_report.CASES)
