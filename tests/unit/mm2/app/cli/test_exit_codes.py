"""Every command states its exit codes, and the codes have one meaning everywhere."""

from __future__ import annotations

import inspect

import pytest

from connect_runtime.base import errors
from connect_runtime.kafka_client import errors as kafka_errors
from connect_runtime.wire.codec import failures
from mm2.app import exits, run_socket, unreachable
from mm2.app.cli import main
from tests.support import cli_commands

EVERY = dict(cli_commands.every())


def test_every_command_is_in_the_table_and_nothing_else_is():
    assert set(exits.COMMANDS) == set(EVERY)
    for name, codes in exits.COMMANDS.items():
        assert set(codes) <= set(exits.CODES), name
        assert exits.DONE in codes, name


@pytest.mark.parametrize("name", EVERY)
def test_help_ends_with_the_codes_of_the_table(name, capsys):
    assert main.run([*name.split(), "--help"]) == exits.DONE
    shown = capsys.readouterr().out.split("Exit codes:\n")
    assert len(shown) == 2, "once"
    told = " ".join(shown[1].split())
    for number, means in exits.meanings(name).items():
        assert f"{number} {exits.CODES[number].name}: {means}" in told
    assert "exit code" not in inspect.getdoc(EVERY[name].callback).lower() or name == "docs"


def test_no_code_is_promised_that_a_command_never_returns():
    assert exits.FAILED not in exits.COMMANDS["why"]


def test_a_reset_tells_apart_what_was_recorded_and_what_was_not():
    told = exits.COMMANDS["topic reset"]
    assert "it is recorded, but" in told[exits.FAILED]
    assert "could not be recorded" in told[exits.FAILED]
    assert exits.UNKNOWN in told


def test_help_fits_a_terminal():
    for name in EVERY:
        for line in exits.help_text(name).splitlines():
            assert len(line) <= 78, line


@pytest.mark.parametrize(
    ("codes", "worst"),
    [
        ([], exits.DONE),
        ([exits.DONE, exits.DONE], exits.DONE),
        ([exits.DONE, exits.FAILED], exits.FAILED),
        ([exits.FAILED, exits.BAD_INPUT], exits.BAD_INPUT),
        ([exits.FAILED, exits.UNKNOWN], exits.UNKNOWN),
        ([exits.DONE, exits.UNREACHABLE], exits.UNKNOWN),
        ([exits.FAILED, exits.UNREACHABLE], exits.UNKNOWN),
        ([exits.UNREACHABLE, exits.UNREACHABLE], exits.UNREACHABLE),
    ],
)
def test_several_results_have_one_code(codes, worst):
    assert exits.worst(codes) == worst


NOBODY = [
    kafka_errors.UnreachableError("no broker"),
    failures.ConnectionFailed("h:1", "refused"),
    failures.ConnectionFailed("h:1", "no such host", layer=failures.Layer.DNS),
    failures.RequestTimedOut("METADATA", waiting_for="a connection", after_s=5.0),
    failures.NodeUnknown(3),
    run_socket.RunSocketError("no process"),
]
ANSWERED = [
    kafka_errors.AuthenticationError("wrong password"),
    kafka_errors.NotAuthorizedError("no right"),
    failures.ConnectionFailed("h:1", "wrong certificate", layer=failures.Layer.TLS),
    failures.AuthenticationFailed("h:1", "wrong password"),
    errors.RetriableError("no leader"),
    errors.FatalError("gone"),
]


@pytest.mark.parametrize("error", NOBODY, ids=repr)
def test_no_answer_is_unreachable(error):
    assert unreachable.is_unreachable(error)


@pytest.mark.parametrize("error", ANSWERED, ids=repr)
def test_a_refusal_is_an_answer(error):
    assert not unreachable.is_unreachable(error)
