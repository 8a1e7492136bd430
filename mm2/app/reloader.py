"""Reading the configuration again while it runs: on SIGHUP, and when `mm2 reload` asks.

`mm2 why`, `mm2 status` and `mm2 lag` come by the same way, and are answered from what the flows
show; so do commands that ask where the REST API is.

One thread of its own, so that looking up topics or waiting for a flow's end holds up nobody.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from connect_runtime.app.settings import problems
from connect_runtime.base import clock, errors
from connect_runtime.system import signals
from mm2.app import exits, operator_log, run_socket, why
from mm2.app.reports import flow_report
from mm2.app.settings import differences
from mm2.app.settings import settings as app_settings
from mm2.connectors import flow_status

TURN_S = 0.2
SETTLE_S = 10.0
KEPT = "the configuration that was in force stays in force"

_log = logging.getLogger(__name__)


class Running(Protocol):
    """What is changed: `mm2.app.node.Node`."""

    @property
    def settings(self) -> app_settings.Settings: ...

    @property
    def settled(self) -> bool: ...

    @property
    def not_in_force(self) -> Sequence[str]: ...

    @property
    def api(self) -> Mapping[str, object]: ...

    @property
    def action_log(self) -> operator_log.OperatorLog: ...

    def statuses(self) -> Sequence[flow_status.FlowStatus]: ...

    def apply(self, settings: app_settings.Settings, changes: differences.Changes) -> None: ...


class Reloader:
    """`load` reads the file as the process did at its start; it raises `SettingsError`.

    `socket` None: only SIGHUP asks.
    """

    def __init__(
        self,
        running: Running,
        load: Callable[[], app_settings.Settings],
        *,
        hang_up: signals.Flag,
        socket: run_socket.RunSocket | None,
        reports: Callable[[], Sequence[flow_report.FlowReport]],
        now: clock.Clock,
    ) -> None:
        self._running = running
        self._load = load
        self._hang_up = hang_up
        self._socket = socket
        self._reports = reports
        self._clock = now

    def run(self, stop: threading.Event) -> None:
        """The thread's body."""
        while not stop.is_set():
            if self._hang_up.is_set():
                self._hang_up.clear()
                self.answer(run_socket.Question())
            if self._socket is not None:
                self._socket.serve(self.answer, TURN_S)
            else:
                stop.wait(TURN_S)

    def answer(self, question: run_socket.AnyQuestion) -> run_socket.Answer:
        """What somebody asks, over the socket or by SIGHUP; never raises."""
        try:
            return self._answer(question)
        except Exception as error:  # noqa: BLE001 - neither stops the copying nor is hidden
            _log.exception("answering %s", question)
            return run_socket.Answer(
                code=exits.FAILED, lines=(f"failed with {error!r}: see the log",)
            )

    def _answer(self, question: run_socket.AnyQuestion) -> run_socket.Answer:
        match question:
            case run_socket.Question():
                if question.dry_run:
                    return self.reload(question)
                operator, before = question.peer or "unknown (SIGHUP)", self._running.settings
                self._running.action_log.log_reload(operator)
                answer = self.reload(question)
                if answer.code == exits.DONE:
                    self._running.action_log.record_reload(operator, before=before)
                return answer
            case run_socket.ApiQuestion():
                who = {"user": question.peer} if question.peer else {}
                detail = {**self._running.api, **who}
                return run_socket.Answer(code=exits.DONE, lines=(), detail=detail)
            case run_socket.StatusQuestion():
                found = [flow_report.as_json(each) for each in self._reports()]
                detail = {"version": flow_report.JSON_VERSION, "flows": found}
                return run_socket.Answer(code=exits.DONE, lines=(), detail=detail)
            case run_socket.WhyQuestion():
                told = why.look(
                    self._running.settings,
                    self._running.statuses(),
                    question.topic,
                    reports=self._reports(),
                )
                return run_socket.Answer(
                    code=exits.DONE if told.known else exits.BAD_INPUT,
                    lines=tuple(told.lines()),
                    detail=told.as_json(),
                )

    def reload(self, question: run_socket.Question) -> run_socket.Answer:
        """Read, compare and, unless only that was asked for, change; what is done is logged."""
        try:
            found = self._load()
        except problems.SettingsError as error:
            told = [each.describe(error.file) for each in error.problems]
            return self._failed([*told, KEPT], code=exits.BAD_INPUT)
        changes = differences.plan(self._running.settings, found)
        lines = [f"warning: {line}" for line in found.warning_lines()] + changes.lines()
        detail = {"warnings": found.warning_lines(), **changes.as_json()}
        if question.dry_run:
            lines.append("dry run: nothing was applied")
            return run_socket.Answer(
                code=exits.DONE, lines=tuple(lines), detail={"outcome": "dry run", **detail}
            )
        try:
            self._running.apply(found, changes)
        except errors.ConnectError as error:
            return self._failed([str(error), KEPT], code=exits.FAILED)
        for line in lines:
            _log.info("reloaded: %s", line)
        settled = self._await_settled()
        led_elsewhere = list(self._running.not_in_force)
        for line in led_elsewhere:
            _log.warning("reloaded, but %s", line)
        lines += led_elsewhere
        outcome, result = _outcome(changes, settled=settled, led_elsewhere=bool(led_elsewhere))
        if result:
            lines.append(result)
        return run_socket.Answer(
            code=exits.DONE,
            lines=tuple(lines),
            detail={"outcome": outcome, **detail, "not_in_force": led_elsewhere},
        )

    def _failed(self, lines: list[str], *, code: int) -> run_socket.Answer:
        for line in lines:
            _log.error("not reloaded: %s", line)
        detail = {"outcome": "failed", "errors": lines[:-1]}
        return run_socket.Answer(code=code, lines=tuple(lines), detail=detail)

    def _await_settled(self) -> bool:
        until_s = self._clock.now_s() + SETTLE_S
        waiting = threading.Event()
        while not self._running.settled:
            if self._clock.now_s() >= until_s:
                return False
            waiting.wait(0.02)
        return True


def _outcome(
    changes: differences.Changes, *, settled: bool, led_elsewhere: bool
) -> tuple[str, str]:
    """For programs, and the last line for people."""
    if changes.nothing:
        return "unchanged", ""
    if not changes.flows:
        return "at next start", "nothing was applied to the running process"
    if not settled:
        return "under way", "still being applied: the log says how far it is"
    if led_elsewhere:
        return "applied in part", "applied, except what another node has to write"
    return "applied", "applied"
