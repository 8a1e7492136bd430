"""Programs can read the result of every command."""

from __future__ import annotations

import pytest

from tests.support import cli_commands

WITHOUT = {
    "completion": "prints a script for the shell",
    "config convert": "prints a configuration file",
    "demo": "shows the product to people; a drill measures, and has --json",
    "docs": "prints Markdown",
    "run": "runs until it is stopped: mm2 status --json, metrics and the JSON log tell programs",
    "sandbox kafka": "runs a tool of Kafka's, which prints what it prints",
    "sandbox logs": "prints log files",
}


@pytest.mark.parametrize(
    ("name", "command"), list(cli_commands.every()), ids=lambda each: str(each)
)
def test_every_command_prints_json_but_those_that_print_something_else(name, command):
    options = {option for parameter in command.params for option in parameter.opts}
    assert ("--json" in options) is (name not in WITHOUT)
