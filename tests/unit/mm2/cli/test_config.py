from __future__ import annotations

import json

import pytest

from mm2 import exit_codes
from mm2.cli import main

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
    assert main.run_command(["config", "check"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "clusters.yaml: 2 clusters, 1 flow: east->west\n"
    assert captured.err == ""


def test_warnings_go_to_stderr_and_leave_the_exit_code_alone(tmp_path, capsys):
    keys = "refresh.topics.enabled: false, sync.topic.configs.interval.seconds: 5"
    (tmp_path / "clusters.yaml").write_text(GOOD.replace("to: west", f"to: west, {keys}"))
    assert main.run_command(["config", "check"]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("clusters.yaml: 2 clusters")
    place = "warning: clusters.yaml:3: flows[0].sync.topic.configs.interval.seconds: "
    assert captured.err.startswith(f"{place}has no effect while")
    assert len(captured.err.splitlines()) == 1


@pytest.mark.parametrize("command", ["check", "show"])
def test_mistakes_go_to_stderr_with_exit_code_2(tmp_path, capsys, command):
    (tmp_path / "bad.yaml").write_text(GOOD.replace("from: east", "from: eastt"))
    assert main.run_command(["config", command, "bad.yaml"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("bad.yaml:3: flows[0].from: ")
    assert "nothing was started" not in captured.err
    assert "did you mean 'east'?" in captured.err


def test_a_missing_file_is_bad_input(capsys):
    assert main.run_command(["config", "show", "nope.yaml"]) == 2
    assert capsys.readouterr().err.startswith("nope.yaml: cannot be read")


def test_show_prints_what_is_in_force_without_secrets(tmp_path, capsys):
    (tmp_path / "clusters.yaml").write_text(GOOD)
    assert main.run_command(["config", "show"]) == 0
    text = capsys.readouterr().out
    assert "replication.factor: -1  # default" in text
    assert "secret-host" not in text


def test_show_and_check_as_json(tmp_path, capsys):
    (tmp_path / "clusters.yaml").write_text(GOOD)
    assert main.run_command(["config", "show", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    group = shown["flows"]["east->west"]["worker"]["group.id"]
    assert group == {"value": "east-mm2", "origin": "MM2 default", "used": True}
    assert main.run_command(["config", "check", "--json"]) == 0
    checked = json.loads(capsys.readouterr().out)
    assert (checked["valid"], checked["flows"]) == (True, ["east->west"])
    (tmp_path / "bad.yaml").write_text(GOOD.replace("from: east", "from: eastt"))
    assert main.run_command(["config", "check", "bad.yaml", "--json"]) == 2
    captured = capsys.readouterr()
    (problem,) = json.loads(captured.out)["problems"]
    assert (problem["line"], problem["key"], problem["nearest"]) == (3, "flows[0].from", "east")
    assert captured.err == ""


PROPERTIES = """clusters = east, west
east.bootstrap.servers = e:1
west.bootstrap.servers = w:1
east->west.enabled = true
east->west.topics = orders.*
errors.tolerance = all
"""


def test_every_command_takes_a_file_of_mirror_maker(tmp_path, capsys):
    (tmp_path / "mm2.properties").write_text(PROPERTIES)
    assert main.run_command(["config", "check", "mm2.properties"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "mm2.properties: 2 clusters, 1 flow: east->west\n"
    assert captured.err.startswith("warning: mm2.properties:6: errors.tolerance: ")
    assert main.run_command(["config", "show", "mm2.properties"]) == 0
    assert "topics: orders.*  # mm2.properties:5" in capsys.readouterr().out
    (tmp_path / "mm2.properties").write_text(PROPERTIES + "east->west.tasks.max = x\n")
    assert main.run_command(["run", "mm2.properties"]) == 2
    assert "mm2.properties:7: east->west.tasks.max: is not allowed" in capsys.readouterr().err


def test_convert_goes_both_ways_and_names_what_has_no_effect(tmp_path, capsys):
    (tmp_path / "mm2.properties").write_text(PROPERTIES)
    assert main.run_command(["config", "convert", "mm2.properties"]) == 0
    there = capsys.readouterr()
    assert "- from: east" in there.out
    assert there.err.startswith("note: errors.tolerance: ")
    (tmp_path / "c.yaml").write_text(there.out)
    assert main.run_command(["config", "convert", "c.yaml", "--to", "properties"]) == 0
    back = capsys.readouterr()
    assert "east->west.topics = orders.*\n" in back.out
    assert back.err == ""
    assert main.run_command(["config", "convert", "c.yaml", "--to", "yaml"]) == 0
    assert capsys.readouterr().out == there.out


def test_convert_keeps_secrets_where_they_are(tmp_path, capsys):
    (tmp_path / "clusters.yaml").write_text(GOOD)
    assert main.run_command(["config", "convert"]) == 0
    text = capsys.readouterr().out
    assert "west.bootstrap.servers = ${env:WEST_SERVERS}\n" in text
    assert "config.providers.env.class = org.apache.kafka" in text
    assert "secret-host" not in text


def test_what_no_form_can_say_is_refused(tmp_path, capsys):
    (tmp_path / "clusters.yaml").write_text(
        GOOD.replace("to: west", "to: west, topics: ['a{1,2}']")
    )
    assert main.run_command(["config", "convert"]) == 2
    assert "flows[0].topics: 'a{1,2}', because commas" in capsys.readouterr().err


def test_reload_without_a_running_process(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("MM2_RUN_DIR", str(tmp_path / "run"))
    assert main.run_command(["reload", "mm2.properties", "--json"]) == exit_codes.UNREACHABLE
    assert "no process runs" in json.loads(capsys.readouterr().out)["error"]
    assert main.run_command(["reload", "mm2.properties"]) == exit_codes.UNREACHABLE
    captured = capsys.readouterr()
    assert captured.err.startswith("mm2: no process runs ")
    assert len(captured.err.splitlines()) == 1


def test_a_file_in_its_own_form_stays_as_it_is_byte_by_byte(tmp_path, capsysbinary):
    """Java reads ISO-8859-1."""
    content = PROPERTIES.encode() + b"# caf\xe9\r\n"
    (tmp_path / "mm2.properties").write_bytes(content)
    assert main.run_command(["config", "convert", "mm2.properties", "--to", "properties"]) == 0
    assert capsysbinary.readouterr().out == content
