from __future__ import annotations

import json
import logging
import pathlib
import signal

import pytest

from connect_runtime.app import command_line
from connect_runtime.app.command_line import CommandBody, ConnectWorkerCommand
from connect_runtime.base import log_context
from connect_runtime.config.config_errors import ConfigProblem, SettingsError
from connect_runtime.system.signals import StopSignals

ROOT = pathlib.Path(__file__).parents[4]


@pytest.fixture(autouse=True)
def _talkative():
    levels = {name: logging.getLogger(name).level for name in ("httpx",)}
    yield
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def made(body: CommandBody) -> ConnectWorkerCommand:
    return ConnectWorkerCommand("probe", body, usage="Probe FILE", help_text="Examples: none")


def no_body(files: tuple[pathlib.Path, ...], stop: StopSignals) -> int:
    raise AssertionError("not to be called")


@pytest.mark.parametrize("arguments", [[], ["--help"], ["a", "--help"], ["--log-level", "warn"]])
def test_usage_has_exit_code_1(capsys, arguments):
    assert command_line.run_command(made(no_body), arguments) == command_line.EXIT_USAGE
    said = capsys.readouterr()
    shown, silent = (said.out, said.err) if "--help" in arguments else (said.err, said.out)
    assert shown.startswith("Usage: Probe FILE\n")
    assert silent == ""


@pytest.mark.parametrize("arguments", [["-daemon", "a"], ["--log-level", "loud", "a"]])
def test_wrong_options_have_it_too(capsys, arguments):
    assert command_line.run_command(made(no_body), arguments) == command_line.EXIT_USAGE
    assert "Usage: Probe FILE" in capsys.readouterr().err


def test_the_body_gets_files_and_signals(capsys):
    def body(files: tuple[pathlib.Path, ...], stop: StopSignals) -> int:
        assert files == (pathlib.Path("a"), pathlib.Path("b"))
        signal.raise_signal(signal.SIGTERM)
        return 128 + (stop.signal_number or 0)

    assert command_line.run_command(made(body), ["a", "b"]) == 143


def test_log_lines_have_their_context_and_format(capsys):
    def body(*_: object) -> int:
        with log_context.bind_log_fields(connector="c", task=1):
            logging.getLogger("x").info("unheard")
            logging.getLogger("x").warning("heard")
            logging.getLogger("httpx").info("HTTP Request")
        return 0

    assert (
        command_line.run_command(made(body), ["a", "--log-format", "json", "--log-level", "WARN"])
        == 0
    )
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["message"] == "heard"
    assert (json.loads(line)["connector"], json.loads(line)["task"]) == ("c", 1)


def test_settings_errors_are_told_without_a_trace(capsys):
    def body(*_: object) -> int:
        raise SettingsError("w", [ConfigProblem(line=3, key="a", text="is wrong")])

    assert (
        command_line.run_command(made(body), ["a", "--log-level", "ERROR"])
        == command_line.EXIT_BAD_SETTINGS
    )
    assert capsys.readouterr().err == "w:3: a: is wrong\n1 problem in w: nothing was started\n"


def test_what_nobody_thought_of_is_told_with_its_trace(capsys):
    def body(*_: object) -> int:
        raise AssertionError("ours")

    assert command_line.run_command(made(body), ["a"]) == command_line.EXIT_BAD_SETTINGS
    assert "AssertionError: ours" in capsys.readouterr().err


def test_an_interrupted_start(capsys):
    def body(*_: object) -> int:
        raise KeyboardInterrupt

    assert command_line.run_command(made(body), ["a"]) == 130
