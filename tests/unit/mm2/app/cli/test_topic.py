from __future__ import annotations

import pytest

from mm2.app import exits
from mm2.app.cli import main, topic


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["east->wst", "t", "--from", "earliest"], "did you mean 'east->west'?"),
        (["east->west", "--from", "earliest"], "TOPIC"),
        (["east->west", "t"], "--from"),
        (["east->west", "t", "--partition", "-1", "--from", "earliest"], "--partition"),
        (["east->west", "t", "--from", "noon"], "milliseconds since 1970"),
        (["east->west", "t", "--from", "offset:x"], "or offset:N"),
        (["east->west", "t", "--from", f"offset:{2**63}"], "or offset:N"),
        (["east->west", "t", "--from", "offset:\u0663"], "or offset:N"),
        (["east->west", "t", "--from", "9" * 15], "or offset:N"),
        (["east->west", "t", "--from", "9999-12-31T23:59:59-14:00"], "or offset:N"),
        (["east->west", "t", "--from", "offset:7"], "name one with --partition as well"),
    ],
)
def test_wrong_usage_is_refused_before_anything_is_asked(config, arguments, words, capsys):
    assert main.run(["topic", "reset", *arguments, "--config", str(config)]) == exits.BAD_INPUT
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err


@pytest.mark.parametrize(
    ("start", "position"),
    [
        ("earliest", "earliest"),
        ("LATEST", "latest"),
        ("2026-01-31T08:00:00Z", "1769846400000"),
        ("2026-01-31T09:00:00+01:00", "1769846400000"),
        ("1769846400000", "1769846400000"),
        ("offset:0", "offset:0"),
        ("offset:1234567890123", "offset:1234567890123"),
    ],
)
def test_positions(start, position):
    assert topic._position(start) == position
