from __future__ import annotations

import importlib
import logging
import os
import pathlib
import subprocess
import sys

import click
import pytest

from connect_runtime.base.errors import FatalError
from connect_runtime.kafka.client_errors import UnreachableError
from mm2 import exit_codes
from mm2.cli import main
from mm2.cli.main import Subcommand

ROOT = pathlib.Path(__file__).parents[4]


@pytest.fixture
def subcommand(monkeypatch: pytest.MonkeyPatch):
    """Registers a function as `mm2 probe`."""

    def register(function) -> None:
        module = type(sys)("probe_module")
        vars(module)["command"] = click.command("probe")(function)
        monkeypatch.setitem(sys.modules, "probe_module", module)
        probe = Subcommand("probe_module", "command", "A probe.")
        monkeypatch.setitem(main.SUBCOMMANDS, "probe", probe)

    return register


def test_version_and_help(capsys):
    assert main.run_command(["--version"]) == exit_codes.DONE
    assert capsys.readouterr().out == "mm2 0.1.0\n"
    assert main.run_command(["--help"]) == exit_codes.DONE
    text = capsys.readouterr().out
    assert "Examples:" in text
    assert "config" in text


def test_names_that_the_terminal_cannot_show_are_escaped(tmp_path):
    file = tmp_path / "clusters.yaml"
    file.write_text(
        "clusters: {east: {bootstrap.servers: 'e:1'}, west: {bootstrap.servers: 'w:1'}}\n"
        "flows: [{from: east, to: west, topics: 日本語}]\n",
        encoding="utf-8",
    )
    done = subprocess.run(
        [sys.executable, "-P", "-m", "mm2.cli.main", "config", "show", file],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "latin-1:strict"},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == exit_codes.DONE, done.stderr
    assert rb"\u65e5\u672c\u8a9e" in done.stdout


def test_help_has_every_command_once_below_a_heading(capsys):
    main.run_command(["--help"])
    lines = capsys.readouterr().out.splitlines()
    found: dict[str, list[str]] = {}
    for line in lines[lines.index("Configure:") :]:
        if line.endswith(":"):
            heading = line.removesuffix(":")
        elif line:
            name, summary = line.split(maxsplit=1)
            found.setdefault(heading, []).append(name)
            assert summary == main.SUBCOMMANDS[name].summary, "in one line"
    assert found == {heading: list(section) for heading, section in main.COMMAND_SECTIONS.items()}


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
    assert main.run_command(words) == exit_codes.BAD_INPUT
    assert told in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("name", sorted(main.SUBCOMMANDS))
def test_every_subcommand_exists_and_shows_examples(name, capsys):
    found = main.SUBCOMMANDS[name]
    command = getattr(importlib.import_module(found.module), found.attribute)
    assert command.name == name
    assert main.run_command([name, "--help"]) == exit_codes.DONE
    assert "mm2 " + name in capsys.readouterr().out


def test_help_and_version_load_no_client_library():
    code = (
        "import sys\n"
        "from mm2.cli import main\n"
        "assert main.run_command(['--version']) == 0 and main.run_command(['--help']) == 0\n"
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
    assert main.run_command(arguments) == exit_codes.BAD_INPUT
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Usage" in captured.err


def test_a_subcommand_returns_its_exit_code(subcommand):
    subcommand(lambda: exit_codes.INTERRUPTED)
    assert main.run_command(["probe"]) == exit_codes.INTERRUPTED
    subcommand(lambda: None)
    assert main.run_command(["probe"]) == exit_codes.DONE


def test_known_errors_are_told_without_a_trace(subcommand, capsys):
    def fail() -> None:
        raise FatalError("reading topic orders: it is gone; create it")

    subcommand(fail)
    assert main.run_command(["probe"]) == exit_codes.FAILED
    assert capsys.readouterr().err == "mm2: reading topic orders: it is gone; create it\n"


def test_a_cluster_that_does_not_answer_has_a_code_of_its_own(subcommand, capsys):
    def fail() -> None:
        raise UnreachableError("listing topics on east: connection refused")

    subcommand(fail)
    assert main.run_command(["probe"]) == exit_codes.UNREACHABLE
    assert capsys.readouterr().err == "mm2: listing topics on east: connection refused\n"


def test_unknown_errors_are_not_hidden(subcommand):
    def fail() -> None:
        raise ZeroDivisionError

    subcommand(fail)
    with pytest.raises(ZeroDivisionError):
        main.run_command(["probe"])


@pytest.mark.parametrize("error", [KeyboardInterrupt, click.Abort])
def test_ctrl_c_has_its_exit_code(subcommand, error):
    def fail() -> None:
        raise error

    subcommand(fail)
    assert main.run_command(["probe"]) == exit_codes.INTERRUPTED


def test_a_reader_that_goes_away_is_no_trace(tmp_path):
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "mm2.cli.main", "completion", "zsh"],
            cwd=ROOT,
            stdout=write_end,
            stderr=subprocess.PIPE,
            text=True,
            timeout=30,
        )
    finally:
        os.close(write_end)
    assert done.returncode == exit_codes.FAILED
    assert done.stderr == ""


def test_log_options_reach_the_root_logger(subcommand):
    seen: list[int] = []
    subcommand(lambda: seen.append(logging.getLogger().level))
    main.run_command(["--log-level", "debug", "probe"])
    assert seen == [logging.DEBUG]
