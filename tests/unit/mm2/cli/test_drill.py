"""`mm2 drill`: what came of it is told, whatever becomes of its note."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from connect_runtime.system import java_installation
from mm2 import exit_codes
from mm2.cli import main
from mm2.failover.failover_request import FailoverKind
from mm2.node import drill_report
from mm2.sandbox.scenarios import failover_drill
from mm2.sandbox.scenarios.failover_drill import DrillResult

RESULT = DrillResult(
    kind=FailoverKind.EMERGENCY,
    sent=900,
    before=500,
    after=400,
    lost=0,
    skipped=0,
    reread=12,
    rto_s=3.5,
    all_s=4.0,
    report={"reread_max": 40, "reread": "at most 40 records"},
)


class Drill:
    """Has what `Drill` has, and begins no cluster."""

    def __init__(self, *_, **more) -> None:
        pass

    def run(self) -> DrillResult:
        return RESULT

    def close(self) -> None:
        pass


@pytest.fixture
def noted(config: Path, monkeypatch) -> Path:
    """Where the file says that results go."""
    monkeypatch.setattr(java_installation, "find_java", lambda: None)
    monkeypatch.setattr(failover_drill, "Drill", Drill)
    level = logging.getLogger().level
    monkeypatch.setattr(logging.getLogger(), "level", level)
    config.write_text(config.read_text() + "drill: {report: notes/drills.json}\n")
    return config.parent / "notes" / "drills.json"


def drilled(config: Path, *more: str) -> int:
    return main.run_command(
        ["drill", "--from", "east", "--to", "west", "--config", str(config), *more]
    )


def test_what_was_measured_is_told_and_noted(config, noted, capsys):
    assert drilled(config) == exit_codes.DONE
    assert "RTO" in capsys.readouterr().out
    assert drill_report.read_drill_results(noted)["east->west"]["passed_at_ms"] > 0


def test_it_is_told_once(config, noted, capsys):
    assert drilled(config, "--json") == exit_codes.DONE
    assert json.loads(capsys.readouterr().out)["sent"] == 900
    assert drilled(config) == exit_codes.DONE
    assert capsys.readouterr().out.count("RTO") == 1


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_what_cannot_be_noted_was_told_all_the_same(config, noted, capsys, more):
    noted.parent.write_text("a file, where a folder is to be")
    assert drilled(config, *more) != exit_codes.DONE
    told = capsys.readouterr()
    assert f"cannot write drill.report, {noted}: " in told.err
    if more:
        assert json.loads(told.out)["sent"] == 900
    else:
        assert "re-read" in told.out
