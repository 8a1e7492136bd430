from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tests.bench import contestants, report, rows
from tests.bench.report import Setting
from tests.bench.results import Copy, Results, Trickle
from tests.bench.workloads import Produced, Workload

ROUNDS = (1, 2, 3)
OURS, JAVA, TUNED = "mm2", "java", "java-tuned"


def setting(*more_workloads: Workload) -> Setting:
    return Setting(
        machine="2 cores of a machine",
        versions="Apache Kafka 4.3.1",
        rounds=len(ROUNDS),
        produced=[
            Produced(workload=workload, records={0: workload.records}, batch_bytes_mean=129_000)
            for workload in (more_workloads or rows.of_size(1_000)[0].workloads)
        ],
        contestants=contestants.ALL,
        ours=OURS,
        rivals=[JAVA, TUNED],
        latency_s=20.0,
        per_second=500.0,
    )


def measured(**ours: Any) -> Results:
    """Java does 50 MB/s at 25 s/GB; ours eight times that, at 1 s/GB, unless told otherwise."""
    figures: dict[str, Any] = {
        "bytes_s": 400e6,
        "cpu_steady_s_per_gb": 1.0,
        "first_s": 5.0,
        "p99_ms": 2.0,
    } | ours
    p99_ms = figures.pop("p99_ms")
    found = Results()
    for number in ROUNDS:
        for topic in ("big", "small"):
            found.copies.append(
                Copy(contestant=OURS, topic=topic, round=number, records_s=4e5, **figures)
            )
            found.copies += [
                Copy(
                    contestant=each,
                    topic=topic,
                    round=number,
                    bytes_s=50e6 + number * 1e6,
                    records_s=5e4,
                    cpu_steady_s_per_gb=25.0,
                    first_s=10.0,
                )
                for each in (JAVA, TUNED)
            ]
        found.trickles.append(Trickle(contestant=OURS, round=number, p99_ms=p99_ms))
        found.trickles += [
            Trickle(contestant=each, round=number, p50_ms=5.0, p99_ms=11.0)
            for each in (JAVA, TUNED)
        ]
    return found


def test_every_contestant_and_both_floors_have_their_rows():
    text = report.render(setting(), measured())
    for title in ("Java MirrorMaker 2, defaults", "Java MirrorMaker 2, tuned", "mm2 run"):
        assert text.count(f"\n| {title} |") == 3
    assert text.count("\n| bare relay of the same bytes |") == 2
    assert text.count("\n| no replication: a single broker |") == 1
    assert "| Java MirrorMaker 2, defaults | 52.0 (51.0-53.0) |" in text


def test_in_brief_a_workload_is_a_line_and_only_what_fell_short_is_told():
    text = report.brief(setting(), measured())
    assert (
        "| 1 KB records in batches of 128 KB | 50,000 | 50,000 | 400,000 | 8.00x | 8.00x |" in text
    )
    assert text.count("\n| 100 B records in batches of 16 KB |") == 1
    assert "Of 12 expectations, 12 are met." in text
    assert "- met" not in text
    slower = report.brief(setting(), measured(bytes_s=100e6))
    assert "Of 12 expectations, 8 are met. The following expectations are not met:\n\n" in slower
    assert "met:\n\n- NOT met: at least 5x" in slower


@pytest.mark.parametrize("form", [report.brief, report.render])
def test_rows_are_as_wide_as_their_heads(form):
    text = form(setting(), measured())
    widths = {
        tuple(row.count("|") for row in block.splitlines())
        for block in text.split("\n\n")
        if block.startswith("| ")
    }
    assert widths
    assert all(len(set(rows)) == 1 for rows in widths)


def test_settings_and_machine_are_told():
    text = report.render(setting(), measured())
    assert "2 cores of a machine. Apache Kafka 4.3.1." in text
    assert "A.consumer.max.poll.records=" in text
    assert "3 alternating rounds" in text


def test_expectations_that_hold_are_met():
    found = report.expectations(setting(), measured())
    assert len(found) == 2 * (2 * 2 + 2)
    assert [each.text for each in found if not each.met] == []
    assert (
        "- met: at least 5x the throughput (MB/s) of tuned Java MirrorMaker 2 (1 KB records): 7.69x"
        in (report.render(setting(), measured()))
    )


@pytest.mark.parametrize(
    ("figure", "value", "word"),
    [
        ("bytes_s", 5.0 * 52e6 - 1e6, "MB/s"),
        ("cpu_steady_s_per_gb", 25.0 / 15.0 + 0.01, "less steady-state CPU time"),
        ("p99_ms", 11.0 / 3.0 + 0.01, "p99"),
        ("first_s", 10.0, "sooner"),
    ],
)
def test_a_figure_that_falls_short_is_said_not_to_be_met(figure, value, word):
    found = report.expectations(setting(), measured(**{figure: value}))
    short = [each for each in found if not each.met]
    assert short
    assert all(word in each.text for each in short)
    assert all(each.line.startswith("- NOT met: ") for each in short)
    assert len(short) == sum(word in each.text for each in found)


def test_other_workloads_have_goals_of_their_own_and_no_floor():
    """One record per batch: twice Java's records/s, whatever that is in bytes."""
    tiny = rows.of_size(1_000)[1].workloads
    found = Results()
    for contestant, records_s in ((OURS, 400_000.0), (JAVA, 100_000.0), (TUNED, 300_000.0)):
        found.copies += [
            Copy(contestant=contestant, topic=each.topic, round=1, records_s=records_s)
            for each in tiny
        ]
    text = report.render(setting(*tiny), found)
    assert (
        "- met: at least 2x the throughput (records/s) of Java MirrorMaker 2 with default settings "
        "(100 B records, one" in text
    )
    assert (
        "- NOT met: at least 2x the throughput (records/s) of tuned Java MirrorMaker 2 (100 B "
        "records, one" in text
    )
    assert "bare relay" not in text


def test_small_batches_are_told_in_bytes():
    (tiny, _) = rows.of_size(1_000)[1].workloads
    one = Produced(workload=tiny, records={0: 7}, batch_bytes_mean=173)
    told = report.render(dataclasses.replace(setting(), produced=[one]), Results())
    assert "7 records, 0 MB, batches of 173 B on average" in told


def test_what_was_not_measured_is_not_met_either():
    found = report.expectations(setting(), Results())
    assert {each.met for each in found} == {False}
    assert {each.line.partition(":")[0] for each in found} == {"- not measured"}


def test_a_faulty_copy_is_marked_in_its_table_and_told_below():
    with_fault = measured()
    with_fault.copies.append(
        Copy(contestant=JAVA, topic="big", round=4, fault="partition 1 has 3 too many")
    )
    text = report.render(setting(), with_fault)
    assert text.count("| Java MirrorMaker 2, defaults (faulty copy, see below) |") == 1
    assert "- FAULT: java, round 4, big: partition 1 has 3 too many" in text


def test_a_machine_that_others_used_is_told():
    busy = measured()
    busy.copies.append(Copy(contestant=JAVA, topic="big", round=4, others_cores=1.25))
    assert "Other programs on the machine used up to 1.25 cores" in report.render(setting(), busy)
    assert "Other programs" not in report.render(setting(), measured())


def test_without_rivals_there_is_nothing_to_compare():
    alone = Setting(
        machine="m",
        versions="v",
        rounds=1,
        produced=setting().produced,
        contestants=[contestants.MM2_RUN],
        ours=OURS,
        rivals=[],
        latency_s=0.0,
        per_second=500.0,
    )
    text = report.render(alone, Results())
    assert "Expected" not in text
    assert "better" not in text
    assert "one round" in text


def test_the_report_goes_between_the_markers():
    before = f"# Title\n\n{report.BEGIN}\nold\n{report.END}\n\nend\n"
    after = report.insert(before, "new\n")
    assert after == f"# Title\n\n{report.BEGIN}\nnew\n{report.END}\n\nend\n"
    assert report.insert(after, "new\n") == after


@pytest.mark.parametrize(
    "document",
    [
        "nothing",
        f"{report.BEGIN} alone",
        f"{report.END} before {report.BEGIN}",
        f"{report.BEGIN}{report.END}{report.BEGIN}{report.END}",
    ],
)
def test_a_document_without_its_markers_is_refused(document):
    with pytest.raises(ValueError, match="bench"):
        report.insert(document, "new")
