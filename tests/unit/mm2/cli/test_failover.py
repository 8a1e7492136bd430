"""`mm2 failover`, `mm2 failback`, `mm2 drill`: what is told before anything is asked."""

from __future__ import annotations

import dataclasses
import io
import json
import pathlib
import types
from typing import Any

import click
import pytest

from connect_runtime.base.errors import FatalError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka.client_errors import UnreachableError
from mm2 import exit_codes
from mm2.cli import drill, failover, main
from mm2.cli.failover import FailoverOptions, ResumedFailoverSettings
from mm2.clusters.cluster_pair_snapshot import ClusterPairSnapshot, MirroredPartition
from mm2.config import config_loader
from mm2.failover import failover_journal, failover_plan
from mm2.failover.failover_journal import FailoverIdentity
from mm2.failover.failover_journal_file import JournalFile
from mm2.failover.failover_request import ClusterIds, FailoverKind, FailoverRequest
from mm2.failover.readiness import FailoverReadiness
from mm2.offsets.log_start_and_end_offsets import LogBounds
from mm2.sandbox.scenarios.failover_drill import DrillResult

ENDS = ("--from", "east", "--to", "west")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["failover", *ENDS, "--execute", "--resume"], "use only one"),
        (["failover", *ENDS, "--resume"], "add --journal FILE"),
        (["failover", *ENDS, "--planned", "--origin-lost"], "--origin-lost does not contact it"),
        (["failover", "--from", "east", "--to", "wst"], "did you mean 'east->west'?"),
        (["failover", *ENDS, "--quiescence", "0"], "--quiescence"),
        (["failover", *ENDS, "--accept", "lagg:mail"], "--accept lagg:mail: unknown finding code"),
        (["failover", *ENDS, "--accept", "lagg"], "Known codes: as-of-checkpoint, "),
        (["failover", "--from", "east"], "--to"),
        (["failback", "--from", "west", "--to", "north"], "no flow 'west->north'"),
        (["failback", *ENDS, "--planned"], "--planned"),
        (["drill", "--from", "west", "--to", "north"], "no flow 'west->north'"),
    ],
)
def test_wrong_usage(config, arguments, words, capsys):
    assert main.run_command([*arguments, "--config", str(config)]) == exit_codes.BAD_INPUT
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err


FILE = """\
clusters:
  east: {bootstrap.servers: 'e:9092'}
  west:
    bootstrap.servers: 'w:9092'
    security.protocol: SASL_SSL
    sasl.mechanism: PLAIN
    sasl.jaas.config: '${env:JAAS}'
    request.timeout.ms: 5000
flows:
  - {from: east, to: west}
"""
ENVIRONMENT = {
    "JAAS": "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="u" password="geheim";'
}


def test_clients_are_told_how_to_reach_a_cluster_and_nothing_secret(tmp_path: pathlib.Path):
    found = config_loader.parse_clusters_yaml(
        FILE, file="c", folder=tmp_path, environment=ENVIRONMENT
    )
    shown = failover.list_client_properties(found.clusters["west"])
    assert shown["bootstrap.servers"] == "w:9092"
    assert shown["security.protocol"] == "SASL_SSL"
    assert "request.timeout.ms" not in shown
    assert "geheim" not in str(shown)


PLACE = TopicPartition("t", 0)
ORDER = FailoverOptions(
    origin="east",
    destination="west",
    groups=(),
    accepted=(),
    rewind=False,
    execute=False,
    journal=pathlib.Path("j.jsonl"),
    resume=True,
    quiescence_s=1.0,
    wait_s=1.0,
    snapshot_timeout_s=1.0,
    file=pathlib.Path("c.yaml"),
    as_json=False,
)
BEGUN = FailoverIdentity(
    request=FailoverRequest(origin="east", destination="west", kind=FailoverKind.EMERGENCY),
    flow="east->west",
    hooks=("stop-consumers",),
    clusters=ClusterIds(origin="idE", destination="idW"),
)
NOW = ResumedFailoverSettings(
    flow="east->west", hooks=frozenset({"stop-consumers"}), clusters=BEGUN.clusters
)


@pytest.fixture
def begun(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "j.jsonl"
    path.write_text(failover_journal.encode_begun_entry(BEGUN, at_ms=1))
    return path


@pytest.mark.parametrize(
    ("changed", "now", "words"),
    [
        ({}, {}, ""),
        ({"planned": True}, {}, "not of a switch-over"),
        ({"rewind": True}, {}, "begun without --rewind"),
        ({"groups": ("x",)}, {}, "all groups of the flow"),
        ({}, {"flow": "east->north"}, "its flow is east->west"),
        ({}, {"hooks": frozenset()}, "no longer contains: stop-consumers"),
        (
            {},
            {"clusters": ClusterIds(origin="idE", destination="idN")},
            "west was cluster idW when the failover began, and is idN in this file",
        ),
    ],
)
def test_a_journal_goes_on_with_what_it_began(begun, changed, now, words):
    order, found = dataclasses.replace(ORDER, **changed), dataclasses.replace(NOW, **now)
    with JournalFile(begun) as file:
        if not words:
            failover.check_journal_matches_failover(order, file, found, now_ms=2)
            return
        with pytest.raises(click.UsageError, match=words):
            failover.check_journal_matches_failover(order, file, found, now_ms=2)


def test_what_is_accepted_later_is_noted(begun):
    order = dataclasses.replace(ORDER, accepted=("lag",))
    for _ in range(2):
        with JournalFile(begun) as file:
            failover.check_journal_matches_failover(order, file, NOW, now_ms=2)
    assert begun.read_text().count("accepted") == 2  # in the first line, and once more


def test_what_a_drill_measured():
    result = DrillResult(
        kind=FailoverKind.EMERGENCY,
        sent=1_000,
        before=600,
        after=390,
        lost=12,
        skipped=0,
        reread=2,
        rto_s=7.5,
        all_s=9.0,
        report={"reread_max": None, "reread": "unknown"},
    )
    said = "\n".join(drill.format_drill_result(result))
    assert "RTO          7.5 s" in said
    assert "12 records of 1,000 lost" in said
    assert "re-read      2 records\n             failover report: unknown" in said
    assert "FAILED" not in said
    assert result.is_successful
    assert not dataclasses.replace(result, kind=FailoverKind.PLANNED).is_successful
    assert result.as_json()["kind"] == "failover"
    wrong = dataclasses.replace(result, skipped=3)
    assert not wrong.is_successful
    assert "FAILED       the group skipped 3 records that had been replicated" in "\n".join(
        drill.format_drill_result(wrong)
    )


def equipment(tmp_path: pathlib.Path, **mirrored: object) -> Any:
    """Nothing answers behind the plan: the first step fails."""
    settings = config_loader.parse_clusters_yaml(
        FILE, file="c", folder=tmp_path, environment=ENVIRONMENT
    )
    usual: dict[str, Any] = {
        "partition": PLACE,
        "mirror": TopicPartition("east.t", 0),
        "copied_to": 5,
        "source_bounds": LogBounds(start=0, end=9),
        "mirror_bounds": LogBounds(start=0, end=9),
    }
    seen_now = (MirroredPartition(**usual | mirrored),)
    found = ClusterPairSnapshot(at_ms=1, flow="east->west", mirrored=seen_now, groups=())

    def ready(_: object, path: pathlib.Path, **about: object) -> FailoverReadiness:
        assert path.name == "new.jsonl"
        assert about == {"groups": [], "partitions": [PLACE], "silent": False}
        return FailoverReadiness(flow="east->west", unchecked=["somebody is away"])

    def tools(_: object) -> None:
        raise UnreachableError("nobody is there")

    return types.SimpleNamespace(
        planner=types.SimpleNamespace(
            build_plan=lambda asked: failover_plan.build_failover_plan(
                asked, found, lambda *_: None
            )
        ),
        settings=settings,
        pair=types.SimpleNamespace(flow=settings.flows[0]),
        clock=types.SimpleNamespace(wall_ms=lambda: 1),
        build_context=tools,
        build_readiness_checks=lambda: types.SimpleNamespace(collect_readiness=ready),
    )


@pytest.mark.parametrize("as_json", [False, True])
def test_the_plan_is_told_before_the_first_step(tmp_path: pathlib.Path, capsys, as_json):
    path = tmp_path / "new.jsonl"
    order = dataclasses.replace(ORDER, execute=True, resume=False, journal=path, as_json=as_json)
    with pytest.raises(FatalError, match="nobody is there"):  # exits with FAILED
        failover.plan_and_execute_failover(order, equipment(tmp_path))
    captured = capsys.readouterr()
    told = captured.err if as_json else captured.out
    assert "4 records of east are not on west (lag)" in told
    assert "NOTE   not checked, may fail later: somebody is away (unchecked)" in told
    assert told.index("verdict: GO, AT A COST") < told.index("journal: ")
    assert "nothing was changed" not in told
    assert not (as_json and captured.out)
    assert "geheim" not in captured.out + captured.err


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("typed", "yes", "asked", "begun"),
    [
        ("east->west\n", False, True, True),
        ("  east->west \n", False, True, True),
        ("yes\n", False, True, False),
        ("\n", False, True, False),
        ("", True, False, True),
    ],
)
def test_on_a_terminal_the_name_of_the_flow_is_asked_for(
    tmp_path: pathlib.Path, monkeypatch, typed, yes, asked, begun
):
    screen = Terminal()
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    monkeypatch.setattr("sys.stdout", screen)
    path = tmp_path / "new.jsonl"
    order = dataclasses.replace(ORDER, execute=True, resume=False, journal=path, yes=yes)
    if begun:
        with pytest.raises(FatalError, match="nobody is there"):  # the first step
            failover.plan_and_execute_failover(order, equipment(tmp_path))
    else:
        assert failover.plan_and_execute_failover(order, equipment(tmp_path)) == exit_codes.FAILED
    assert path.exists() is begun
    said = screen.getvalue()
    assert ("This stops the flow east->west and moves 0 consumer groups to west." in said) is asked
    assert ("Type east->west to confirm" in said) is asked


@pytest.mark.parametrize("name", ["stdin", "stdout"])
def test_without_a_terminal_nothing_is_asked(tmp_path: pathlib.Path, monkeypatch, name):
    monkeypatch.setattr(f"sys.{name}", Terminal())  # the other one is none
    path = tmp_path / "new.jsonl"
    order = dataclasses.replace(ORDER, execute=True, resume=False, journal=path)
    with pytest.raises(FatalError, match="nobody is there"):
        failover.plan_and_execute_failover(order, equipment(tmp_path))


DO_IT = (
    "nothing was changed. To execute the plan: mm2 failover --from east --to west --config c.yaml"
)


@pytest.mark.parametrize(
    ("given", "mirrored", "last"),
    [
        (
            {"groups": ("g",)},
            {},
            [
                f"{DO_IT} --group g --execute",
                "east is reachable: with --planned, the failover waits until all records are "
                "replicated",
            ],
        ),
        ({"planned": True}, {}, [f"{DO_IT} --planned --execute"]),
        ({}, {"copied_to": 9}, [f"{DO_IT} --execute"]),
        ({"origin_lost": True}, {"copied_to": 9}, [f"{DO_IT} --origin-lost --execute"]),
        (
            {},
            {"stop_reason": "it was made anew"},
            [
                "nothing was changed. Fix the blocking findings, or accept each finding as a "
                "cost with --accept CODE"
            ],
        ),
    ],
    ids=str,
)
def test_a_plan_ends_with_the_way_on(tmp_path: pathlib.Path, capsys, given, mirrored, last):
    given = {"accepted": ("no-such-group:g",)} | given
    order = dataclasses.replace(ORDER, resume=False, journal=tmp_path / "new.jsonl", **given)
    code = failover.plan_and_execute_failover(order, equipment(tmp_path, **mirrored))
    said = [
        each.replace(" --accept no-such-group:g", "")
        for each in capsys.readouterr().out.splitlines()
    ]
    assert said[-len(last) :] == last
    assert code == (exit_codes.FAILED if "stop_reason" in mirrored else exit_codes.DONE)


class Exporting:
    """Seven records never left the cluster gone to."""

    def __init__(self, equipped: Any, *, counted: bool = True) -> None:
        tail = types.SimpleNamespace(ranges=() if counted else None)
        self.written: list[pathlib.Path] = []
        self.closed = 0
        self.planner = types.SimpleNamespace(build_plan_with_tails=lambda _: (None, {PLACE: tail}))
        equipped.build_context = lambda _: self

    def export_records(self, path: pathlib.Path, _: object, move: str) -> int:
        assert move == "east->west 1"
        self.written.append(path)
        return 7

    def close(self) -> None:
        self.closed += 1


def exporting_order(tmp_path: pathlib.Path, **given: Any) -> FailoverOptions:
    return dataclasses.replace(
        ORDER,
        is_failback=True,
        resume=False,
        journal=tmp_path / "new.jsonl",
        export=tmp_path / "left.jsonl",
        accepted=("no-such-group:g", "lag"),
        **given,
    )


@pytest.mark.parametrize("mirrored", [{}, {"stop_reason": "it was made anew"}], ids=str)
@pytest.mark.parametrize("as_json", [False, True])
def test_what_never_left_is_exported_without_a_move(
    tmp_path: pathlib.Path, capsys, as_json: bool, mirrored: dict[str, str]
):
    """Also where the verdict is no-go: it may be gone before that is mended."""
    order, equipped = exporting_order(tmp_path, as_json=as_json), equipment(tmp_path, **mirrored)
    about = Exporting(equipped)
    failover.plan_and_execute_failover(order, equipped)
    assert (about.written, about.closed) == ([order.export], 1)
    said = capsys.readouterr().out
    assert not (tmp_path / "new.jsonl").exists()
    if as_json:
        exported = {"file": str(order.export), "records": 7}
        assert json.loads(said)["exported"] == exported
        return
    assert (
        f"exported to {order.export}: 7 records of west that were never replicated to east" in said
    )
    last = said.splitlines()[-1]
    assert "nothing was changed" in last
    assert "--export" not in last  # it is there


def test_what_cannot_be_counted_is_not_exported(tmp_path: pathlib.Path):
    equipped = equipment(tmp_path)
    about = Exporting(equipped, counted=False)
    with pytest.raises(FatalError, match="t-0: not all records of west that were never replicated"):
        failover.plan_and_execute_failover(exporting_order(tmp_path), equipped)
    assert about.written == []


def test_a_file_that_cannot_be_written_is_told_by_the_plan(tmp_path: pathlib.Path, capsys):
    equipped = equipment(tmp_path)
    about = Exporting(equipped)
    ready = FailoverReadiness(flow="east->west", export_error="left.jsonl is there already")
    equipped.build_readiness_checks = lambda: types.SimpleNamespace(
        collect_readiness=lambda *_, **__: ready
    )
    assert (
        failover.plan_and_execute_failover(exporting_order(tmp_path), equipped) == exit_codes.FAILED
    )
    assert "left.jsonl is there already (no-export)" in capsys.readouterr().out
    assert about.written == []
