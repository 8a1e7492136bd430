from __future__ import annotations

import importlib
import logging
import os
import pathlib
import subprocess
import sys

import click
import pytest

from connect_runtime.base import errors
from connect_runtime.kafka_client import errors as kafka_errors
from mm2.app import exits
from mm2.app.cli import main

ROOT = pathlib.Path(__file__).parents[5]


@pytest.fixture
def subcommand(monkeypatch: pytest.MonkeyPatch):
    """Registers a function as `mm2 probe`."""

    def register(function) -> None:
        module = type(sys)("probe_module")
        vars(module)["command"] = click.command("probe")(function)
        monkeypatch.setitem(sys.modules, "probe_module", module)
        probe = main.Subcommand("probe_module", "command", "A probe.")
        monkeypatch.setitem(main.SUBCOMMANDS, "probe", probe)

    return register


def test_version_and_help(capsys):
    assert main.run(["--version"]) == exits.DONE
    assert capsys.readouterr().out == "mm2 0.1.0\n"
    assert main.run(["--help"]) == exits.DONE
    text = capsys.readouterr().out
    assert "Examples:" in text
    assert "config" in text


def test_help_has_every_command_once_below_a_heading(capsys):
    main.run(["--help"])
    lines = capsys.readouterr().out.splitlines()
    found: dict[str, list[str]] = {}
    for line in lines[lines.index("Configure:") :]:
        if line.endswith(":"):
            heading = line.removesuffix(":")
        elif line:
            name, summary = line.split(maxsplit=1)
            found.setdefault(heading, []).append(name)
            assert summary == main.SUBCOMMANDS[name].summary, "in one line"
    assert found == {heading: list(section) for heading, section in main.SECTIONS.items()}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["failovr"], "No such command 'failovr'. Did you mean 'failover'?"),
        (["stauts"], "Did you mean one of: 'restart', 'status'?"),
        (["offsets", "transalte"], "Did you mean 'translate'?"),
        (["status", "--jsn"], "Did you mean '--json'?"),
        (["lag", "--max-record", "1"], "Did you mean one of: '--max-records', '--max-seconds'?"),
    ],
)
def test_a_mistyped_word_is_answered_with_the_one_that_was_meant(words, told, capsys):
    assert main.run(words) == exits.BAD_INPUT
    assert told in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("name", sorted(main.SUBCOMMANDS))
def test_every_subcommand_exists_and_shows_examples(name, capsys):
    found = main.SUBCOMMANDS[name]
    command = getattr(importlib.import_module(found.module), found.attribute)
    assert command.name == name
    assert main.run([name, "--help"]) == exits.DONE
    assert "mm2 " + name in capsys.readouterr().out


def test_help_and_version_load_no_client_library():
    code = (
        "import sys\n"
        "from mm2.app.cli import main\n"
        "assert main.run(['--version']) == 0 and main.run(['--help']) == 0\n"
        "heavy = {'pyspark', 'confluent_kafka', 'kio', 'yaml', 'rich', 'cryptography',\n"
        "         'prometheus_client', 'importlib.metadata'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=30
    )
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


@pytest.mark.parametrize(
    "arguments",
    [["bogus"], ["--bogus"], ["--log-format", "xml", "config"], ["config", "bogus"], []],
)
def test_wrong_usage_is_bad_input(arguments, capsys):
    assert main.run(arguments) == exits.BAD_INPUT
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Usage" in captured.err


def test_a_subcommand_returns_its_exit_code(subcommand):
    subcommand(lambda: exits.INTERRUPTED)
    assert main.run(["probe"]) == exits.INTERRUPTED
    subcommand(lambda: None)
    assert main.run(["probe"]) == exits.DONE


def test_known_errors_are_told_without_a_trace(subcommand, capsys):
    def fail() -> None:
        raise errors.FatalError("reading topic orders: it is gone; create it")

    subcommand(fail)
    assert main.run(["probe"]) == exits.FAILED
    assert capsys.readouterr().err == "mm2: reading topic orders: it is gone; create it\n"


def test_a_cluster_that_does_not_answer_has_a_code_of_its_own(subcommand, capsys):
    def fail() -> None:
        raise kafka_errors.UnreachableError("listing topics on east: connection refused")

    subcommand(fail)
    assert main.run(["probe"]) == exits.UNREACHABLE
    assert capsys.readouterr().err == "mm2: listing topics on east: connection refused\n"


def test_unknown_errors_are_not_hidden(subcommand):
    def fail() -> None:
        raise ZeroDivisionError

    subcommand(fail)
    with pytest.raises(ZeroDivisionError):
        main.run(["probe"])


@pytest.mark.parametrize("error", [KeyboardInterrupt, click.Abort])
def test_ctrl_c_has_its_exit_code(subcommand, error):
    def fail() -> None:
        raise error

    subcommand(fail)
    assert main.run(["probe"]) == exits.INTERRUPTED


def test_a_reader_that_goes_away_is_no_trace(tmp_path):
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "mm2.app.cli.main", "completion", "zsh"],
            cwd=ROOT,
            stdout=write_end,
            stderr=subprocess.PIPE,
            text=True,
            timeout=30,
        )
    finally:
        os.close(write_end)
    assert done.returncode == exits.FAILED
    assert done.stderr == ""


def test_log_options_reach_the_root_logger(subcommand):
    seen: list[int] = []
    subcommand(lambda: seen.append(logging.getLogger().level))
    main.run(["--log-level", "debug", "probe"])
    assert seen == [logging.DEBUG]
