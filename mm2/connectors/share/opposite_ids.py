"""Answers copies that ask whose a producer id of the source is: of many, all with one read.

Reading has a thread of its own, since the source may take its time to answer.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from connect_runtime.base import errors
from connect_runtime.kafka_client import errors as kafka_errors
from connect_runtime.system import threads
from mm2.connectors.share import opposite_map
from mm2.core.copy import messages

READ_S = 10.0
WAITING_MAX = 10_000
"""Each partition asks one question at a time."""
TURN_S = 0.2
CLOSE_S = 1.0

_LOG = logging.getLogger(__name__)


class Answer(Protocol):
    """Gets which of the ids are the reverse flow's, or None, why nobody can say, and whether that
    is a missing right (`denied`). On another thread."""

    def __call__(
        self, theirs: frozenset[int] | None, why: str, *, denied: bool = False
    ) -> None: ...


Ask = Callable[[Sequence[int], Answer], None]


class Channel(Protocol):
    """As `control_channel.TaskChannel` has it: from any thread."""

    def send(self, message: Mapping[str, object]) -> None: ...

    def close(self, reason: str) -> None: ...


class _Asked(NamedTuple):
    producers: tuple[int, ...]
    answer: Answer


def sender(channel: Channel, number: int) -> Answer:
    """Tells a copy the answer to its question of this number."""

    def answer(theirs: frozenset[int] | None, why: str, *, denied: bool = False) -> None:
        try:
            channel.send(messages.opposite_answer(number, theirs, failure=why, denied=denied))
        except errors.ConnectError as error:
            channel.close(str(error))

    return answer


class OppositeIds:
    """`ask` and `close` are one thread's; nothing is read, and no thread runs, before the first
    question."""

    def __init__(self, found: opposite_map.OppositeMap, *, name: str) -> None:
        self._map = found
        self._name = name
        self._asked: queue.Queue[_Asked] = queue.Queue(WAITING_MAX)
        self._threads = threads.Threads(on_unasked_end=_tell)
        self._thread: threads.OwnedThread | None = None

    def ask(self, producers: Sequence[int], answer: Answer) -> None:
        """Each question is answered once, unless it is closed meanwhile."""
        if self._thread is None or not self._thread.alive:
            self._thread = self._threads.start(f"opposite {self._name}", self._run)
        try:
            self._asked.put_nowait(_Asked(tuple(producers), answer))
        except queue.Full:
            answer(None, f"{WAITING_MAX} such questions wait for the source already")

    def close(self) -> None:
        self._threads.stop_all(CLOSE_S)

    def _run(self, stop: threading.Event) -> None:
        try:
            while not stop.is_set():
                waiting = self._waiting()
                if waiting:
                    self._answer(waiting)
        finally:
            self._map.close()

    def _waiting(self) -> list[_Asked]:
        """All that are there, once there is one."""
        found: list[_Asked] = []
        try:
            found.append(self._asked.get(timeout=TURN_S))
            while True:
                found.append(self._asked.get_nowait())
        except queue.Empty:
            return found

    def _answer(self, waiting: list[_Asked]) -> None:
        producers = {each for one in waiting for each in one.producers}
        try:
            theirs = self._map.whose(sorted(producers), READ_S)
        except Exception as error:
            denied = isinstance(error, kafka_errors.NotAuthorizedError)
            for one in waiting:
                one.answer(None, str(error) or repr(error), denied=denied)
            if not isinstance(error, errors.ConnectError):
                raise
            return
        for one in waiting:
            one.answer(theirs.intersection(one.producers), "")


def _tell(end: threads.UnaskedEnd) -> None:
    _LOG.error("%s ended: %r", end.name, end.error)
