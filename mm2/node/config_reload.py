"""Reads the configuration again while flows run: on SIGHUP and for `mm2 reload`.

Also answers `mm2 why`, `status`, `lag`, and commands that need the REST API's address, from
what the flows show. Runs on its own thread, so that waiting blocks nobody.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from connect_runtime.base.errors import ConnectError
from connect_runtime.base.timing import Clock
from connect_runtime.config.config_errors import SettingsError
from connect_runtime.system.signals import SignalFlag
from mm2 import exit_codes
from mm2.config import config_diff
from mm2.config.config_diff import ReloadPlan
from mm2.config.mm2_settings import Mm2Settings
from mm2.connectors.status_registry import FlowStatus
from mm2.status import status_document, topic_explanation
from mm2.status.operator_log import OperatorLog
from mm2.status.process_socket import (
    ExplainRequest,
    ProcessRequest,
    ProcessResponse,
    ProcessSocket,
    ReloadRequest,
    RestApiRequest,
    StatusRequest,
)
from mm2.status.status_document import FlowReport

POLL_INTERVAL_S = 0.2
SETTLE_TIMEOUT_S = 10.0
CONFIG_KEPT_TEXT = "the configuration that was in force stays in force"

_log = logging.getLogger(__name__)


class ReloadableNode(Protocol):
    """What is changed: `mm2.node.node.Mm2Node`."""

    @property
    def settings(self) -> Mm2Settings: ...

    @property
    def settled(self) -> bool: ...

    @property
    def not_in_force(self) -> Sequence[str]: ...

    @property
    def api(self) -> Mapping[str, object]: ...

    @property
    def action_log(self) -> OperatorLog: ...

    def statuses(self) -> Sequence[FlowStatus]: ...

    def apply(self, settings: Mm2Settings, changes: ReloadPlan) -> None: ...


class ConfigReloader:
    """`load` reads the file as the process did at its start; it raises `SettingsError`.

    `socket` None: only SIGHUP asks.
    """

    def __init__(
        self,
        running: ReloadableNode,
        load: Callable[[], Mm2Settings],
        *,
        hang_up: SignalFlag,
        socket: ProcessSocket | None,
        reports: Callable[[], Sequence[FlowReport]],
        now: Clock,
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
                self.answer(ReloadRequest())
            if self._socket is not None:
                self._socket.serve(self.answer, POLL_INTERVAL_S)
            else:
                stop.wait(POLL_INTERVAL_S)

    def answer(self, question: ProcessRequest) -> ProcessResponse:
        """What somebody asks, over the socket or by SIGHUP; never raises."""
        try:
            return self._answer(question)
        except Exception as error:  # noqa: BLE001 - neither stops the copying nor is hidden
            _log.exception("answering %s", question)
            return ProcessResponse(
                code=exit_codes.FAILED, lines=(f"failed with {error!r}: see the log",)
            )

    def _answer(self, question: ProcessRequest) -> ProcessResponse:
        match question:
            case ReloadRequest():
                if question.dry_run:
                    return self.reload(question)
                operator, before = question.peer or "unknown (SIGHUP)", self._running.settings
                self._running.action_log.log_reload(operator)
                answer = self.reload(question)
                if answer.code == exit_codes.DONE:
                    self._running.action_log.record_reload(operator, before=before)
                return answer
            case RestApiRequest():
                who = {"user": question.peer} if question.peer else {}
                detail = {**self._running.api, **who}
                return ProcessResponse(code=exit_codes.DONE, lines=(), detail=detail)
            case StatusRequest():
                found = [status_document.report_to_json(each) for each in self._reports()]
                detail = {"version": status_document.STATUS_JSON_VERSION, "flows": found}
                return ProcessResponse(code=exit_codes.DONE, lines=(), detail=detail)
            case ExplainRequest():
                told = topic_explanation.explain_topic(
                    self._running.settings,
                    self._running.statuses(),
                    question.topic,
                    reports=self._reports(),
                )
                return ProcessResponse(
                    code=exit_codes.DONE if told.known else exit_codes.BAD_INPUT,
                    lines=tuple(told.lines()),
                    detail=told.as_json(),
                )

    def reload(self, question: ReloadRequest) -> ProcessResponse:
        """Read, compare and, unless only that was asked for, change; what is done is logged."""
        try:
            found = self._load()
        except SettingsError as error:
            told = [each.describe(error.file) for each in error.problems]
            return self._failed([*told, CONFIG_KEPT_TEXT], code=exit_codes.BAD_INPUT)
        changes = config_diff.plan_changes(self._running.settings, found)
        lines = [f"warning: {line}" for line in found.warning_lines()] + changes.lines()
        detail = {"warnings": found.warning_lines(), **changes.as_json()}
        if question.dry_run:
            lines.append("dry run: nothing was applied")
            return ProcessResponse(
                code=exit_codes.DONE, lines=tuple(lines), detail={"outcome": "dry run", **detail}
            )
        try:
            self._running.apply(found, changes)
        except ConnectError as error:
            return self._failed([str(error), CONFIG_KEPT_TEXT], code=exit_codes.FAILED)
        for line in lines:
            _log.info("reloaded: %s", line)
        settled = self._await_settled()
        led_elsewhere = list(self._running.not_in_force)
        for line in led_elsewhere:
            _log.warning("reloaded, but %s", line)
        lines += led_elsewhere
        outcome, result = _reload_result(
            changes, settled=settled, led_elsewhere=bool(led_elsewhere)
        )
        if result:
            lines.append(result)
        return ProcessResponse(
            code=exit_codes.DONE,
            lines=tuple(lines),
            detail={"outcome": outcome, **detail, "not_in_force": led_elsewhere},
        )

    def _failed(self, lines: list[str], *, code: int) -> ProcessResponse:
        for line in lines:
            _log.error("not reloaded: %s", line)
        detail = {"outcome": "failed", "errors": lines[:-1]}
        return ProcessResponse(code=code, lines=tuple(lines), detail=detail)

    def _await_settled(self) -> bool:
        until_s = self._clock.now_s() + SETTLE_TIMEOUT_S
        waiting = threading.Event()
        while not self._running.settled:
            if self._clock.now_s() >= until_s:
                return False
            waiting.wait(0.02)
        return True


def _reload_result(changes: ReloadPlan, *, settled: bool, led_elsewhere: bool) -> tuple[str, str]:
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
