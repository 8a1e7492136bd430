"""Every command states its exit codes, and the codes have one meaning everywhere."""

from __future__ import annotations

import inspect

import pytest

from connect_runtime.base.errors import FatalError, RetriableError
from connect_runtime.kafka.client_errors import (
    AuthenticationError,
    NotAuthorizedError,
    UnreachableError,
)
from connect_runtime.protocol.request_errors import (
    AuthenticationFailed,
    ConnectionFailed,
    RequestFailureLayer,
    RequestTimedOut,
    UnknownBroker,
)
from mm2 import exit_codes
from mm2.cli import main, unreachable_error_check
from mm2.status.process_socket import ProcessSocketError
from tests.support import cli_commands

EVERY = dict(cli_commands.every())


def test_every_command_is_in_the_table_and_nothing_else_is():
    assert set(exit_codes.COMMAND_EXIT_CODES) == set(EVERY)
    for name, codes in exit_codes.COMMAND_EXIT_CODES.items():
        assert set(codes) <= set(exit_codes.EXIT_CODES), name
        assert exit_codes.DONE in codes, name


@pytest.mark.parametrize("name", EVERY)
def test_help_ends_with_the_codes_of_the_table(name, capsys):
    assert main.run_command([*name.split(), "--help"]) == exit_codes.DONE
    shown = capsys.readouterr().out.split("Exit codes:\n")
    assert len(shown) == 2, "once"
    told = " ".join(shown[1].split())
    for number, means in exit_codes.list_exit_code_meanings(name).items():
        assert f"{number} {exit_codes.EXIT_CODES[number].name}: {means}" in told
    assert "exit code" not in inspect.getdoc(EVERY[name].callback).lower() or name == "docs"


def test_no_code_is_promised_that_a_command_never_returns():
    assert exit_codes.FAILED not in exit_codes.COMMAND_EXIT_CODES["why"]


def test_a_reset_tells_apart_what_was_recorded_and_what_was_not():
    told = exit_codes.COMMAND_EXIT_CODES["topic reset"]
    assert "the reset is recorded, but" in told[exit_codes.FAILED]
    assert "could not be recorded" in told[exit_codes.FAILED]
    assert exit_codes.UNKNOWN in told


def test_help_fits_a_terminal():
    for name in EVERY:
        for line in exit_codes.format_exit_codes_help(name).splitlines():
            assert len(line) <= 78, line


@pytest.mark.parametrize(
    ("codes", "worst"),
    [
        ([], exit_codes.DONE),
        ([exit_codes.DONE, exit_codes.DONE], exit_codes.DONE),
        ([exit_codes.DONE, exit_codes.FAILED], exit_codes.FAILED),
        ([exit_codes.FAILED, exit_codes.BAD_INPUT], exit_codes.BAD_INPUT),
        ([exit_codes.FAILED, exit_codes.UNKNOWN], exit_codes.UNKNOWN),
        ([exit_codes.DONE, exit_codes.UNREACHABLE], exit_codes.UNKNOWN),
        ([exit_codes.FAILED, exit_codes.UNREACHABLE], exit_codes.UNKNOWN),
        ([exit_codes.UNREACHABLE, exit_codes.UNREACHABLE], exit_codes.UNREACHABLE),
    ],
)
def test_several_results_have_one_code(codes, worst):
    assert exit_codes.combine_exit_codes(codes) == worst


NOBODY = [
    UnreachableError("no broker"),
    ConnectionFailed("h:1", "refused"),
    ConnectionFailed("h:1", "no such host", layer=RequestFailureLayer.DNS),
    RequestTimedOut("METADATA", waiting_for="a connection", after_s=5.0),
    UnknownBroker(3),
    ProcessSocketError("no process"),
]
ANSWERED = [
    AuthenticationError("wrong password"),
    NotAuthorizedError("no right"),
    ConnectionFailed("h:1", "wrong certificate", layer=RequestFailureLayer.TLS),
    AuthenticationFailed("h:1", "wrong password"),
    RetriableError("no leader"),
    FatalError("gone"),
]


@pytest.mark.parametrize("error", NOBODY, ids=repr)
def test_no_answer_is_unreachable(error):
    assert unreachable_error_check.is_unreachable_error(error)


@pytest.mark.parametrize("error", ANSWERED, ids=repr)
def test_a_refusal_is_an_answer(error):
    assert not unreachable_error_check.is_unreachable_error(error)
