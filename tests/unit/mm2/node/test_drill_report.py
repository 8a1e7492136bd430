"""The report of drills: written by one command, read by another."""

from __future__ import annotations

import json
import os

import pytest

from mm2.node import drill_report
from mm2.node.drill_report import DrillReportError, LastDrillTimes


@pytest.fixture
def path(tmp_path):
    return tmp_path / "reports" / "drills.json"


def test_what_passed_last_outlives_a_drill_that_failed(path):
    drill_report.record_drill_result(path, "a->b", {"rto_s": 4.5}, passed=True, at_ms=1_000)
    drill_report.record_drill_result(path, "b->a", {"rto_s": 1.0}, passed=False, at_ms=2_000)
    drill_report.record_drill_result(path, "a->b", {"rto_s": 9.0}, passed=False, at_ms=3_000)
    found = drill_report.read_drill_results(path)
    assert found["a->b"] == {
        "passed_at_ms": 1_000,
        "last": {"at_ms": 3_000, "passed": False, "rto_s": 9.0},
    }
    assert LastDrillTimes(path).read_last_success_times_s() == {"a->b": 1.0}
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_file_that_changes_is_read_again(path):
    drills = LastDrillTimes(path)
    assert drills.read_last_success_times_s() == {}
    drill_report.record_drill_result(path, "a->b", {}, passed=True, at_ms=1_000)
    assert drills.read_last_success_times_s() == {"a->b": 1.0}
    drill_report.record_drill_result(path, "a->b", {}, passed=True, at_ms=2_000_000)
    assert drills.read_last_success_times_s() == {"a->b": 2_000.0}
    path.unlink()
    assert drills.read_last_success_times_s() == {}


def test_without_a_name_of_a_file_drills_are_not_noted():
    assert LastDrillTimes(None).read_last_success_times_s() is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("no json", "invalid content"),
        ("[]", "invalid content"),
        (json.dumps({"version": 2, "flows": {}}), "unsupported version 2; supported is 1"),
        (json.dumps({"version": 1, "flows": 3}), "invalid content"),
        ("[" * 100_000, "invalid content"),
        *(
            (json.dumps({"version": 1, "flows": {"a->b": {"passed_at_ms": wrong}}}), "Unix time")
            for wrong in (10**400, -1, 10**15, float("inf"), float("nan"), True, "1", [0])
        ),
    ],
)
def test_what_is_no_report_is_told_and_never_written_over(path, text, why, caplog):
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(DrillReportError, match=why):
        drill_report.record_drill_result(path, "a->b", {}, passed=True, at_ms=1)
    assert path.read_text() == text
    drills = LastDrillTimes(path)
    assert drills.read_last_success_times_s() == drills.read_last_success_times_s() == {}
    assert why in caplog.text


def test_a_report_that_is_no_file_is_refused_at_once(path, caplog):
    path.parent.mkdir()
    os.mkfifo(path)
    assert LastDrillTimes(path).read_last_success_times_s() == {}
    assert "not a regular file" in caplog.text
    path.unlink()
    path.symlink_to("/dev/zero")
    assert LastDrillTimes(path).read_last_success_times_s() == {}
    assert "symbolic links are not followed" in caplog.text
    path.unlink()
    with path.open("wb") as large:
        large.truncate(1 << 40)
    assert LastDrillTimes(path).read_last_success_times_s() == {}
    assert "larger than 4 MiB" in caplog.text


def test_a_report_of_another_user_is_refused(path, monkeypatch, caplog):
    drill_report.record_drill_result(path, "a->b", {}, passed=True, at_ms=1)
    if os.geteuid() == 0:
        os.chown(path, 4242, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 4242)
    assert LastDrillTimes(path).read_last_success_times_s() == {}
    assert "is owned by user id" in caplog.text


def test_a_prepared_link_is_not_written_through(path, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    victim.chmod(0o600)
    path.parent.mkdir()
    path.with_name(path.name + ".writing").symlink_to(victim)
    drill_report.record_drill_result(path, "a->b", {}, passed=True, at_ms=1)
    assert victim.read_text() == "precious"
    assert victim.stat().st_mode & 0o777 == 0o600
    assert not path.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_link_with_a_too_long_target_is_refused(path):
    path.parent.mkdir()
    path.symlink_to("a" * 300)
    with pytest.raises(DrillReportError, match="symbolic links are not followed"):
        drill_report.record_drill_result(path, "a->b", {}, passed=True, at_ms=1)


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    path = tmp_path / "file" / "drills.json"
    with pytest.raises(DrillReportError, match=r"cannot write drill\.report, .*drills"):
        drill_report.record_drill_result(path, "a->b", {}, passed=True, at_ms=1)
