"""Reads the configuration file again while flows are running, on SIGHUP or for `mm2 reload`.

Also answers the requests that `mm2 why`, `mm2 status`, `mm2 lag`, and commands that need the
address of the REST API send to this process. Runs on a separate thread because requests may block.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.errors import ConnectError
from connect_runtime.config.config_errors import SettingsError
from connect_runtime.system.signals import SignalFlag
from mm2 import exit_codes
from mm2.config import config_diff
from mm2.config.config_diff import ReloadPlan
from mm2.config.mm2_settings import Mm2Settings
from mm2.connectors.status_registry import FlowStatus
from mm2.status import status_document, topic_explanation
from mm2.status.operator_action_log import OperatorLog
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
CONFIG_KEPT_TEXT = "the previous configuration remains in effect"

_log = logging.getLogger(__name__)


class ReloadableNode(Protocol):
    """The part of `Mm2Node` that a configuration reload needs."""

    @property
    def settings(self) -> Mm2Settings: ...

    @property
    def has_applied_changes(self) -> bool: ...

    @property
    def ineffective_changes(self) -> Sequence[str]: ...

    @property
    def rest_api(self) -> Mapping[str, object]: ...

    @property
    def action_log(self) -> OperatorLog: ...

    def statuses(self) -> Sequence[FlowStatus]: ...

    def apply_changes(self, settings: Mm2Settings, changes: ReloadPlan) -> None: ...


class ConfigReloader:
    """Serves the requests that `mm2` commands send to this process, and reloads the configuration.

    `load` reads the configuration file and applies the process's command-line options; it raises
    `SettingsError`. If `socket` is None, only SIGHUP triggers a reload.
    """

    def __init__(
        self,
        node: ReloadableNode,
        load: Callable[[], Mm2Settings],
        *,
        reload_signal: SignalFlag,
        socket: ProcessSocket | None,
        reports: Callable[[], Sequence[FlowReport]],
        clock: Clock,
    ) -> None:
        self._node = node
        self._load = load
        self._hang_up = reload_signal
        self._socket = socket
        self._reports = reports
        self._clock = clock

    def run(self, stop: threading.Event) -> None:
        """Serve requests until `stop` is set. Runs on the reload thread."""
        while not stop.is_set():
            if self._hang_up.is_set():
                self._hang_up.clear()
                self.answer_request(ReloadRequest())
            if self._socket is not None:
                self._socket.serve_request(self.answer_request, POLL_INTERVAL_S)
            else:
                stop.wait(POLL_INTERVAL_S)

    def answer_request(self, request: ProcessRequest) -> ProcessResponse:
        """Return the response to a request from the process socket or from SIGHUP. Never raises an
        exception."""
        try:
            return self._dispatch_request(request)
        except Exception as error:  # noqa: BLE001 - logged; must not stop replication
            _log.exception("answering %s failed", request)
            return ProcessResponse(
                code=exit_codes.FAILED, lines=(f"the request failed with {error!r}: see the log",)
            )

    def _dispatch_request(self, request: ProcessRequest) -> ProcessResponse:
        match request:
            case ReloadRequest():
                if request.dry_run:
                    return self.reload_config(request)
                operator, before = request.peer or "unknown (SIGHUP)", self._node.settings
                self._node.action_log.log_reload_request(operator)
                answer = self.reload_config(request)
                if answer.code == exit_codes.DONE:
                    self._node.action_log.record_reload(operator, before=before)
                return answer
            case RestApiRequest():
                user = {"user": request.peer} if request.peer else {}
                detail = {**self._node.rest_api, **user}
                return ProcessResponse(code=exit_codes.DONE, lines=(), detail=detail)
            case StatusRequest():
                reports = [status_document.report_to_json(each) for each in self._reports()]
                detail = {"version": status_document.STATUS_JSON_VERSION, "flows": reports}
                return ProcessResponse(code=exit_codes.DONE, lines=(), detail=detail)
            case ExplainRequest():
                explanation = topic_explanation.explain_topic(
                    self._node.settings,
                    self._node.statuses(),
                    request.topic,
                    reports=self._reports(),
                )
                return ProcessResponse(
                    code=exit_codes.DONE
                    if explanation.explains_whether_topic_is_replicated
                    else exit_codes.BAD_INPUT,
                    lines=tuple(explanation.format_lines()),
                    detail=explanation.as_json(),
                )

    def reload_config(self, request: ReloadRequest) -> ProcessResponse:
        """Read the configuration file, compare it with the settings in effect, and apply the
        changes unless the request is a dry run. Applied changes are logged."""
        try:
            settings = self._load()
        except SettingsError as error:
            problems = [each.describe(error.file) for each in error.problems]
            return self._build_failure_response(
                [*problems, CONFIG_KEPT_TEXT], code=exit_codes.BAD_INPUT
            )
        changes = config_diff.plan_config_changes(self._node.settings, settings)
        lines = [f"warning: {line}" for line in settings.format_warnings()] + changes.format_lines()
        detail = {"warnings": settings.format_warnings(), **changes.as_json()}
        if request.dry_run:
            lines.append("dry run: nothing was applied")
            return ProcessResponse(
                code=exit_codes.DONE, lines=tuple(lines), detail={"outcome": "dry run", **detail}
            )
        try:
            self._node.apply_changes(settings, changes)
        except ConnectError as error:
            return self._build_failure_response(
                [str(error), CONFIG_KEPT_TEXT], code=exit_codes.FAILED
            )
        for line in lines:
            _log.info("reload: %s", line)
        settled = self._wait_until_applied()
        led_elsewhere = list(self._node.ineffective_changes)
        for line in led_elsewhere:
            _log.warning("reload incomplete: %s", line)
        lines += led_elsewhere
        outcome, result = _describe_reload_result(
            changes, settled=settled, led_elsewhere=bool(led_elsewhere)
        )
        if result:
            lines.append(result)
        return ProcessResponse(
            code=exit_codes.DONE,
            lines=tuple(lines),
            detail={"outcome": outcome, **detail, "not_in_force": led_elsewhere},
        )

    def _build_failure_response(self, lines: list[str], *, code: int) -> ProcessResponse:
        for line in lines:
            _log.error("reload failed: %s", line)
        detail = {"outcome": "failed", "errors": lines[:-1]}
        return ProcessResponse(code=code, lines=tuple(lines), detail=detail)

    def _wait_until_applied(self) -> bool:
        until_s = self._clock.now_s() + SETTLE_TIMEOUT_S
        waiting = threading.Event()
        while not self._node.has_applied_changes:
            if self._clock.now_s() >= until_s:
                return False
            waiting.wait(0.02)
        return True


def _describe_reload_result(
    changes: ReloadPlan, *, settled: bool, led_elsewhere: bool
) -> tuple[str, str]:
    """Return the outcome of a reload as a keyword for programs, and the last output line for
    users."""
    if changes.is_empty:
        return "unchanged", ""
    if not changes.flows:
        return "at next start", "nothing was applied to the running process"
    if not settled:
        return "under way", "changes are still being applied: see the log for progress"
    if led_elsewhere:
        return "applied in part", "applied, except for changes that another node must write"
    return "applied", "applied"
