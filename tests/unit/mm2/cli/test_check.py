"""`mm2 check` where nobody answers: exit codes, and what is printed."""

from __future__ import annotations

import json

import pytest

from mm2 import exit_codes
from mm2.cli import main
from mm2.sandbox import port_reservation

FILE = """
clusters:
  east: {{bootstrap.servers: "127.0.0.1:{port}"}}
  west: {{bootstrap.servers: "127.0.0.1:{port}"}}
flows:
  - {{from: east, to: west, topics: orders}}
  - {{from: west, to: east, topics: orders}}
spark: {{engine: inline}}
"""


@pytest.fixture
def file(tmp_path):
    """Nobody listens at its port."""
    reserved = port_reservation.reserve_port()
    path = tmp_path / "clusters.yaml"
    path.write_text(FILE.format(port=reserved.port))
    yield str(path)
    reserved.release()


def test_nothing_is_known_of_clusters_that_nobody_reaches(file, capsys):
    assert main.run_command(["check", file, "--json"]) == exit_codes.UNREACHABLE
    told = json.loads(capsys.readouterr().out)
    assert told["verdict"] == "failed"
    assert [(each["subject"], each["code"]) for each in told["findings"]] == [
        ("east", "network"),
        ("west", "network"),
    ]
    skipped = {each["subject"] for each in told["checks"] if each["result"] == "skipped"}
    assert skipped == {"east", "west", "east->west", "west->east"}


def test_one_flow_may_be_looked_at_alone(file, capsys):
    assert main.run_command(["check", file, "--flow", "west->east"]) == exit_codes.UNREACHABLE
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("west->east") for line in lines)
    assert not any(line.startswith("east->west") for line in lines)


def test_a_flow_that_is_not_there_and_a_wrong_file_are_bad_input(file, tmp_path, capsys):
    assert main.run_command(["check", file, "--flow", "west->earth"]) == 2
    assert "did you mean 'west->east'?" in capsys.readouterr().err
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("clusters: {}\n")
    assert main.run_command(["check", str(wrong)]) == 2


def test_warnings_of_the_file_are_told_too(file, capsys, tmp_path):
    flat = tmp_path / "mm2.properties"
    flat.write_text(
        "clusters=a,b\na.bootstrap.servers=127.0.0.1:1\nb.bootstrap.servers=127.0.0.1:1\n"
        "a->b.enabled=true\na->b.topics.exclud=x\nmm2.engine=inline\n"
    )
    main.run_command(["check", str(flat)])
    assert "warning: " in capsys.readouterr().err
