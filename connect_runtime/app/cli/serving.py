"""Runs one worker until it is told to stop, or ends by itself. Java: AbstractConnectCli."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable
from typing import Protocol, TypeVar

from connect_runtime.app.cli import exits
from connect_runtime.base import errors
from connect_runtime.rest import server
from connect_runtime.system import signals

_LOG = logging.getLogger(__name__)
_LOOK_S = 0.1


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

    `stop` is entered: its first signal ends the worker in order.
    """
    try:
        made = make()
    except errors.ConnectError as error:
        _LOG.error("stopping due to error: %s", error)
        return exits.BAD_SETTINGS
    try:
        _LOG.info("Kafka Connect starting")
        return _start(made, begin) or _watch(made, stop)
    finally:
        _LOG.info("Kafka Connect stopping")
        made.stop()
        _LOG.info("Kafka Connect stopped")


def _start(made: R, begin: Callable[[R], None] | None) -> int:
    """0 where all has started."""
    try:
        made.start()
    except server.RestServerError as error:
        _LOG.error("stopping due to error: %s", error)
        return exits.BAD_SETTINGS
    except errors.ConnectError as error:
        _LOG.error("failed to start Connect: %s", error)
        return exits.NOT_STARTED
    _LOG.info("Kafka Connect started")
    try:
        if begin is not None:
            begin(made)
    except errors.ConnectError as error:
        _LOG.error("stopping after connector error: %s", error)
        return exits.NOT_STARTED
    return exits.DONE


def _watch(made: Running, stop: signals.StopSignals) -> int:
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
