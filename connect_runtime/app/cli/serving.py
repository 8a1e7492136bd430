"""Runs one worker until it is told to stop, or ends by itself. Java: AbstractConnectCli."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable
from typing import Protocol, TypeVar

from connect_runtime.app.cli import exits
from connect_runtime.base import errors
from connect_runtime.rest import server
from connect_runtime.system import signals, threads

_LOG = logging.getLogger(__name__)
_LOOK_S = 0.1
_START_LEFT_S = 5.0
"""For a start that a signal interrupts: to become one that can be stopped in order."""


class Running(Protocol):
    """A worker, put together."""

    @property
    def failure(self) -> str | None:
        """Why it ended by itself."""

    def start(self) -> None:
        """Raises `ConnectError`, and then nothing is left running."""

    def wait(self, timeout_s: float) -> bool:
        """Has it ended by itself?"""

    def stop(self) -> None:
        """All of it, in a bounded time; once more does nothing."""


R = TypeVar("R", bound=Running)


def serve(
    make: Callable[[], R], stop: signals.StopSignals, *, begin: Callable[[R], None] | None = None
) -> int:
    """The exit code. `begin` is called once the worker has started, and may raise `ConnectError`.

    `stop` is entered: its first signal ends the worker in order. One that does not start, because
    no broker answers, is left as it is.
    """
    try:
        made = make()
    except errors.ConnectError as error:
        _LOG.error("stopping due to error: %s", error)
        return exits.BAD_SETTINGS
    _LOG.info("Kafka Connect starting")
    starting = threads.Threads(on_unasked_end=_ignore).start("start", lambda _: made.start())
    if not _ends(starting, stop):
        _LOG.warning("told to stop while starting, which takes too long to be waited for")
        return exits.SIGNALLED + (stop.signal_number or 0)
    try:
        code = _started(starting.failure)
        if not code and begin is not None and not stop.asked.is_set():
            code = _begun(made, begin)
        return code or _watched(made, stop)
    finally:
        _LOG.info("Kafka Connect stopping")
        made.stop()
        _LOG.info("Kafka Connect stopped")


def _ignore(_: threads.UnaskedEnd) -> None:
    """It is waited for, and its failure is looked at."""


def _ends(starting: threads.OwnedThread, stop: signals.StopSignals) -> bool:
    """In the end, or soon after a signal."""
    while not starting.join(_LOOK_S):
        if stop.asked.is_set():
            return starting.join(_START_LEFT_S)
    return True


def _started(failure: BaseException | None) -> int:
    """0 where it has."""
    match failure:
        case None:
            _LOG.info("Kafka Connect started")
            return exits.DONE
        case server.RestServerError():
            _LOG.error("stopping due to error: %s", failure)
            return exits.BAD_SETTINGS
        case errors.ConnectError():
            _LOG.error("failed to start Connect: %s", failure)
            return exits.NOT_STARTED
    raise failure


def _begun(made: R, begin: Callable[[R], None]) -> int:
    try:
        begin(made)
    except errors.ConnectError as error:
        _LOG.error("stopping after connector error: %s", error)
        return exits.NOT_STARTED
    return exits.DONE


def _watched(made: Running, stop: signals.StopSignals) -> int:
    while not stop.asked.is_set():
        if made.wait(_LOOK_S):
            if made.failure is None:
                return exits.DONE
            _LOG.error("the worker ended by itself: %s", made.failure)
            return exits.ENDED
    number = stop.signal_number
    assert number is not None
    _LOG.info("%s: stopping in order; once more ends at once", signal.Signals(number).name)
    return exits.SIGNALLED + number
