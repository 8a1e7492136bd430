from __future__ import annotations

import pytest

from mm2 import exit_codes
from mm2.cli import main

PLACE = ["--topic", "t", "--partition", "0"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "pass either --group, or --topic with --partition"),
        (["--group", "g", *PLACE, "--offset", "1"], "pass either --group, or --topic"),
        (["--group", "g", "--offset", "1"], "need --topic, not --group"),
        (["--topic", "t", "--offset", "1"], "--topic needs --partition"),
        (PLACE, "--offset or --timestamp"),
        ([*PLACE, "--offset", "1", "--timestamp", "5"], "--offset or --timestamp"),
        ([*PLACE, "--offset", "-1"], "--offset"),
        ([*PLACE, "--offset", str(2**63)], "--offset"),
        ([*PLACE, "--timestamp", "noon"], "milliseconds since 1970"),
        ([*PLACE, "--timestamp", "latest"], "milliseconds since 1970"),
        (["--group", "g", "--json", "--csv"], "pass either --json or --csv"),
        (["--group", "g"], "has several flows: pass --flow with one of 'east->west', 'west->east'"),
        (["--group", "g", "--flow", "east->wst"], "did you mean 'east->west'?"),
    ],
)
def test_wrong_usage_is_told_before_anything_is_asked(config, arguments, words, capsys):
    code = main.run_command(["offsets", "translate", *arguments, "--config", str(config)])
    captured = capsys.readouterr()
    assert code == exit_codes.BAD_INPUT
    assert captured.out == ""
    assert words in " ".join(captured.err.split())
