"""Whatever a message tells people to type, the command line takes."""

from __future__ import annotations

import shlex

import click
import pytest

from mm2 import suggested_commands
from mm2.cli import main, topic
from mm2.suggested_commands import OperatorCommands
from tests.support import printed

FILES = ["/etc/mm2/clusters.yaml", "my clusters.yaml", "mm2.properties"]


def parsed(line: str) -> click.Context:
    program, name, *words = shlex.split(line)
    assert program == "mm2"
    command = main.cli.get_command(click.Context(main.cli), name)
    if isinstance(command, click.Group):
        name, *words = words
        command = command.get_command(click.Context(command), name)
    assert command is not None
    return command.make_context(name, words)


@pytest.mark.parametrize("file", FILES)
def test_every_command_of_ours_is_understood(file):
    told = list(printed.messages(OperatorCommands(file=file)))
    lines = {line for text in told for line in printed.ours(text)}
    assert {line.split()[1] for line in lines} == {"reload", "restart", "topic", "offsets"}
    for line in lines:
        given = parsed(line).params
        assert str(given["config"]) == file
        if "topics" in given:
            assert (given["flow"], given["topics"]) == ("east->west", ("orders",))
        if given.get("start") is not None:
            assert given["flow"] == "east->west"
            assert given.get("topic", "orders") == "orders"
            assert topic.parse_reset_position(given["start"]) == given["start"]
            assert given["start"].startswith(printed.POSITIONS)
            assert given.get("partitions") or ":" not in given["start"]


def test_every_remedy_is_a_command():
    for text in printed.messages(suggested_commands.GENERIC_COMMANDS):
        line = suggested_commands.extract_remedy_from_message(text)
        assert line, text
        assert text.endswith(line)
        for each in line.split(" && "):
            assert each.startswith(("mm2 ", "kafka-")), text
