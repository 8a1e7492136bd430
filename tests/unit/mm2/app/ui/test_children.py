from __future__ import annotations

import json
import tempfile

import pytest

from mm2.app import version
from mm2.app.ui import children, questions


def _nobody() -> bool:
    """Has gone."""
    return False


FILE = """
clusters: {east: {bootstrap.servers: '127.0.0.1:1'}, west: {bootstrap.servers: '127.0.0.1:1'}}
flows:
- {from: east, to: west}
"""


def test_a_commands_answer_is_what_it_printed():
    assert version.VERSION in children.run(["--version"], 60.0, _nobody).decode()


def test_a_command_that_says_why_it_cannot_is_quoted(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("clusters: 3")
    with pytest.raises(
        questions.CommandError, match=r"mm2 receipts .* ended with 2: 2 problems in "
    ):
        children.run(["receipts", str(file), "--json"], 60.0, _nobody)


def test_a_command_that_takes_too_long_is_ended(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text(FILE)
    with pytest.raises(questions.CommandError, match=r"was ended: no answer within 1 s"):
        children.run(["receipts", str(file), "--timeout", "600", "--json"], 1.0, _nobody)


def test_a_command_that_failed_without_an_answer_is_no_answer(tmp_path, monkeypatch):
    file = tmp_path / "c.yaml"
    file.write_text(FILE)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(questions.CommandError, match=r"ended with 4: mm2: .*127\.0\.0\.1:1"):
        children.run(["receipts", str(file), "--timeout", "0.5", "--json"], 60.0, _nobody)
    assert [each.name for each in tmp_path.iterdir()] == ["c.yaml"], "nothing is left behind"


def test_an_answer_goes_through_json():
    with pytest.raises(json.JSONDecodeError):
        json.loads(children.run(["--version"], 60.0, _nobody))


def test_a_command_that_nobody_waits_for_is_ended_and_leaves_nothing(tmp_path, monkeypatch):
    file = tmp_path / "c.yaml"
    file.write_text(FILE)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(questions.CommandError, match="was ended: nobody waits for it"):
        children.run(["receipts", str(file), "--timeout", "600"], 60.0, lambda: True)
    assert [each.name for each in tmp_path.iterdir()] == ["c.yaml"]
