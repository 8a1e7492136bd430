from __future__ import annotations

import pytest

from mm2.app.cli import main

GOOD = """
clusters: {east: {bootstrap.servers: 'e:1'}, west: {bootstrap.servers: '${env:WEST_SERVERS}'}}
flows: [{from: east, to: west}]
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WEST_SERVERS", "secret-host:1")


def test_check_tells_what_is_there(tmp_path, capsys):
    (tmp_path / "clusters.yaml").write_text(GOOD)
    assert main.run(["config", "check"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "clusters.yaml: 2 clusters, 1 flow: east->west\n"
    assert captured.err == ""


def test_warnings_go_to_stderr_and_leave_the_exit_code_alone(tmp_path, capsys):
    (tmp_path / "clusters.yaml").write_text(GOOD.replace("to: west", "to: west, groups: x"))
    assert main.run(["config", "check"]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("clusters.yaml: 2 clusters")
    assert captured.err == (
        "warning: clusters.yaml:3: flows[0].groups: has no effect yet: "
        "offsets of consumer groups are not synced\n"
    )


@pytest.mark.parametrize("command", ["check", "show"])
def test_mistakes_go_to_stderr_with_exit_code_2(tmp_path, capsys, command):
    (tmp_path / "bad.yaml").write_text(GOOD.replace("from: east", "from: eastt"))
    assert main.run(["config", command, "bad.yaml"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("bad.yaml:3: flows[0].from: ")
    assert "did you mean 'east'?" in captured.err


def test_a_missing_file_is_bad_input(capsys):
    assert main.run(["config", "show", "nope.yaml"]) == 2
    assert capsys.readouterr().err.startswith("nope.yaml: cannot be read")


def test_show_prints_what_is_in_force_without_secrets(tmp_path, capsys):
    (tmp_path / "clusters.yaml").write_text(GOOD)
    assert main.run(["config", "show"]) == 0
    text = capsys.readouterr().out
    assert "replication.factor: 2" in text
    assert "secret-host" not in text
