"""What the page asks of the clusters themselves: receipts, and the plan of a failover.

Each is one of mm2's own commands, in a process of its own: what it reads and how long that takes is
no matter of those who copy, and it can be ended at any time. One runs at a time; what was found
stays until somebody who looks wants it newer.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import shlex
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connect_runtime.base import clock as base_clock
from connect_runtime.base import errors
from connect_runtime.system import pool
from mm2.app.ui import command_answers
from mm2.core import flows

RECEIPTS_EVERY_S = 60.0
PLAN_EVERY_S = 30.0
"""So long after a try the same is not asked again, however many want it."""
RECEIPTS_S, PLAN_S = 30.0, 90.0
"""So long a command may take before it is ended."""
WAITING_MAX = 16
_STOP_S = 0.5
_LOOK_S = "60"

_log = logging.getLogger(__name__)

Json = dict[str, Any]
Read = Callable[[Mapping[str, Any]], Json]


class CommandError(errors.RetriableError):
    """A command gave no answer; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """`words` are the command without `mm2`; `read` cuts its answer down."""

    words: tuple[str, ...]
    timeout_s: float
    every_s: float
    read: Read


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is known of a question. `found` is of `at_ms`, None before; `error` says why the last
    try has found nothing, "" where it has. `took_s` of the last try, which ended at `tried_s`."""

    found: Json | None = None
    at_ms: int | None = None
    took_s: float | None = None
    error: str = ""
    running: bool = False
    tried_s: float = float("-inf")


Run = Callable[[Sequence[str], float, Callable[[], bool]], bytes]
"""Runs `mm2` with these words, for so many seconds at most or until nobody waits for it any more,
and returns what it printed. Raises `CommandError`."""


def receipts(flow: flows.Flow, file: str) -> Question:
    """As `mm2 receipts` lists them."""
    return Question(
        words=("receipts", file, "--flow", flow.name, "--json"),
        timeout_s=RECEIPTS_S,
        every_s=RECEIPTS_EVERY_S,
        read=command_answers.receipts,
    )


def plan(flow: flows.Flow, file: str) -> Question:
    """The dry run of `mm2 failover`."""
    ends = ("--from", flow.source, "--to", flow.target)
    return Question(
        words=("failover", *ends, "--config", file, "--look", _LOOK_S, "--json"),
        timeout_s=PLAN_S,
        every_s=PLAN_EVERY_S,
        read=command_answers.plan,
    )


class Questions:
    """Any thread may ask; nobody waits. Bounded by the flows that the file has had."""

    def __init__(self, run: Run, *, clock: base_clock.Clock) -> None:
        self._run = run
        self._clock = clock
        self._pool = pool.Pool("status page questions", threads_max=1, waiting_max=WAITING_MAX)
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._answers: dict[tuple[str, ...], Answer] = {}

    def known(self, question: Question) -> Answer:
        """Without asking."""
        with self._lock:
            return self._answers.get(question.words, Answer())

    def ask(self, question: Question) -> Answer:
        """What is known; it is asked again, for who comes later, unless that was done just now."""
        with self._lock:
            known = self._answers.get(question.words, Answer())
            due = self._clock.now_s() - known.tried_s >= question.every_s
            if known.running or not due:
                return known
            known = dataclasses.replace(known, running=True)
            self._answers[question.words] = known
        try:
            self._pool.submit(lambda: self._find(question))
        except pool.PoolFull as error:
            refused = dataclasses.replace(known, running=False, error=str(error))
            return self._note(question, dataclasses.replace(refused, tried_s=self._clock.now_s()))
        return known

    def stop(self) -> None:
        """Ask nobody any more, and end what runs."""
        self._stopping.set()
        self._pool.stop(_STOP_S)

    def _find(self, question: Question) -> None:
        """However the try ends, that is noted."""
        began_s = self._clock.now_s()
        before = self.known(question)
        error, found = "it broke off", before.found
        try:
            error, found = self._try(question, before.found)
        finally:
            now_s = self._clock.now_s()
            self._note(
                question,
                Answer(
                    found=found,
                    at_ms=before.at_ms if error else self._clock.wall_ms(),
                    took_s=now_s - began_s,
                    error=error,
                    tried_s=now_s,
                ),
            )

    def _try(self, question: Question, before: Json | None) -> tuple[str, Json | None]:
        """Why nothing was found, "" where it was, and what is known then."""
        try:
            printed = self._run(question.words, question.timeout_s, self._stopping.is_set)
            return "", question.read(json.loads(printed))
        except CommandError as raised:
            return str(raised), before
        except Exception as raised:  # noqa: BLE001 - who looks at the page is told
            return f"mm2 {shlex.join(question.words)}: no usable answer: {raised!r}", before

    def _note(self, question: Question, answer: Answer) -> Answer:
        if answer.error:
            _log.debug("for the status page: %s", answer.error)
        with self._lock:
            self._answers[question.words] = answer
        return answer


def as_json(answer: Answer) -> Json:
    """`found` beside when, and whether it is being asked again."""
    return {
        "found": answer.found,
        "found_ms": answer.at_ms,
        "took_s": None if answer.took_s is None else round(answer.took_s, 1),
        "error": answer.error,
        "running": answer.running,
    }
