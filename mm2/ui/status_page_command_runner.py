"""Runs mm2 commands for the status page: `mm2 incidents` and the dry run of `mm2 failover`.

Each command runs as a child process, so that its duration and its cluster reads do not affect
replication, and so that it can be killed at any time. Only one command runs at a time. Each
command's JSON output is reduced to the fields that the page shows, and kept until the command is
run again. Child processes end with this process and after a timeout; their temporary files are
removed.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import pathlib
import shlex
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.errors import RetriableError
from connect_runtime.system import child_processes, system_clock
from connect_runtime.system.child_processes import ProcessStartError
from connect_runtime.system.supervised_threads import ThreadPool, ThreadPoolFull
from mm2 import exit_codes
from mm2.failover.plan_findings import PlanSeverity, PlanVerdict
from mm2.formats.incident_records import IncidentKind
from mm2.topics.flow_config import Flow
from mm2.ui.status_page_json import Badge

LISTED_INCIDENTS_MAX = 100
OPERATOR_ACTION_KIND = IncidentKind.OPERATOR_ACTION.value
LISTED_FINDINGS_MAX = 30

JsonObject = dict[str, Any]

_VERDICT_BADGES = {
    "go": (PlanVerdict.GO, Badge.GOOD),
    "go-at-a-cost": (PlanVerdict.GO_AT_A_COST, Badge.WAIT),
    "no-go": (PlanVerdict.NO_GO, Badge.BAD),
}
_WEIGHT_BADGES = {
    PlanSeverity.FORBIDS.value: Badge.BAD,
    PlanSeverity.COSTS.value: Badge.WAIT,
    PlanSeverity.NOTE.value: Badge.OFF,
}
_WORST_WEIGHT_FIRST = [each.value for each in PlanSeverity]


class UnsupportedOutputVersionError(ValueError):
    """The command's output has an unexpected version."""


def parse_incidents(told: Mapping[str, Any]) -> JsonObject:
    """Reduce the output of `mm2 incidents` to the fields that the page shows, newest incident
    first. Operator actions are listed separately.

    Raises `UnsupportedOutputVersionError`, `KeyError` or `TypeError` if the output is invalid.
    """
    _check_output_version(told)
    found = sorted(told["incidents"], key=lambda each: -each["at_ms"])
    stated = [each for each in found if each["kind"] != OPERATOR_ACTION_KIND]
    actions = [each for each in found if each["kind"] == OPERATOR_ACTION_KIND]
    return {
        "incident_count": len(stated),
        "kinds": dict(sorted(Counter(each["kind"] for each in stated).items())),
        "incidents": [_make_incident(each) for each in stated[:LISTED_INCIDENTS_MAX]],
        "actions": [_make_incident(each) for each in actions[:LISTED_INCIDENTS_MAX]],
    }


def _make_incident(each: Mapping[str, Any]) -> JsonObject:
    names = ("id", "at_ms", "topic", "partition", "kind", "source", "target", "detail")
    return {name: each[name] for name in names}


def parse_failover_plan(told: Mapping[str, Any]) -> JsonObject:
    """Reduce a failover plan to the fields that the page shows, with the most severe findings
    first.

    Raises `UnsupportedOutputVersionError`, `KeyError` or `TypeError` if the output is invalid.
    """
    _check_output_version(told)
    verdict, badge = _VERDICT_BADGES[told["verdict"]]
    findings = sorted(
        told["findings"], key=lambda each: _WORST_WEIGHT_FIRST.index(each["severity"])
    )
    return {
        "verdict": verdict.value,
        "badge": badge.value,
        "plan_ms": told["at_ms"],
        "origin_error": told["origin_error"],
        "lag_records": told["lag_records"],
        "lag_ms": told["lag_ms"],
        "newest_ms": told["newest_ms"],
        "group_count": len(told["groups"]),
        "reread": told["reread"],
        "unmoved_groups": [each["group"] for each in told["unmoved_groups"]],
        "findings": [
            {
                "severity": each["severity"],
                "badge": _WEIGHT_BADGES[each["severity"]].value,
                "code": each["code"],
                "text": each["text"],
            }
            for each in findings[:LISTED_FINDINGS_MAX]
        ],
        "findings_hidden": max(0, len(findings) - LISTED_FINDINGS_MAX),
    }


def _check_output_version(told: Mapping[str, Any]) -> None:
    if told["version"] != 1:
        raise UnsupportedOutputVersionError(f"output version {told['version']} is not 1")


INCIDENTS_INTERVAL_S = 60.0
PLAN_INTERVAL_S = 30.0
"""Minimum intervals in seconds between two runs of the same `mm2 incidents` command, and between
two dry runs of the same `mm2 failover` command."""
INCIDENTS_TIMEOUT_S, PLAN_TIMEOUT_S = 30.0, 90.0
"""Command timeouts in seconds."""
QUEUED_COMMANDS_MAX = 16
_RUNNER_STOP_TIMEOUT_S = 0.5
_PLAN_READ_TIMEOUT_S = "60"

_log = logging.getLogger(__name__)

ParseOutput = Callable[[Mapping[str, Any]], JsonObject]


class CommandFailedError(RetriableError):
    """A command failed; the message contains the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageCommand:
    """An mm2 command that the status page can run, with its time limits and the function that
    parses its output."""

    arguments: tuple[str, ...]
    """Command-line arguments without `mm2`."""
    timeout_s: float
    min_interval_s: float
    parse_output: ParseOutput
    """Reduces the command's output to the fields that the page shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """Result of the last run of a command for the status page."""

    output: JsonObject | None = None
    """Output of the last successful run, reduced to the fields that the page shows."""
    at_ms: int | None = None
    """Time of the last successful run, in wall-clock milliseconds."""
    took_s: float | None = None
    """Duration of the last run in seconds."""
    error: str = ""
    """Error of the last run; "" if the run succeeded."""
    running: bool = False
    tried_s: float = float("-inf")
    """Time at which the last run ended."""


RunCommand = Callable[[Sequence[str], float, Callable[[], bool]], bytes]
"""Function that runs `mm2` with the given arguments and returns the output. The child process is
killed after the given timeout in seconds, or when the predicate returns True. Raises
`CommandFailedError`."""


def make_incidents_command(flow: Flow, file: str) -> PageCommand:
    """Build the command that lists a flow's incidents."""
    return PageCommand(
        arguments=("incidents", file, "--flow", flow.name, "--json"),
        timeout_s=INCIDENTS_TIMEOUT_S,
        min_interval_s=INCIDENTS_INTERVAL_S,
        parse_output=parse_incidents,
    )


def make_plan_command(flow: Flow, file: str) -> PageCommand:
    """Build the command for the dry run of a failover."""
    ends = ("--from", flow.source, "--to", flow.target)
    return PageCommand(
        arguments=(
            "failover",
            *ends,
            "--config",
            file,
            "--snapshot-timeout",
            _PLAN_READ_TIMEOUT_S,
            "--json",
        ),
        timeout_s=PLAN_TIMEOUT_S,
        min_interval_s=PLAN_INTERVAL_S,
        parse_output=parse_failover_plan,
    )


class CommandRunner:
    """Runs commands in the background. Thread-safe. Only the last result of each command is kept,
    so the number of results is bounded by the number of flows."""

    def __init__(self, run: RunCommand, *, clock: Clock) -> None:
        self._run = run
        self._clock = clock
        self._pool = ThreadPool(
            "status page questions", threads_max=1, waiting_max=QUEUED_COMMANDS_MAX
        )
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._answers: dict[tuple[str, ...], CommandResult] = {}

    def get_last_result(self, question: PageCommand) -> CommandResult:
        """Return the last result of a command, without running the command again."""
        with self._lock:
            return self._answers.get(question.arguments, CommandResult())

    def request_result(self, question: PageCommand) -> CommandResult:
        """Return the last result of a command, and run the command again in the background unless
        it was run recently."""
        with self._lock:
            known = self._answers.get(question.arguments, CommandResult())
            due = self._clock.now_s() - known.tried_s >= question.min_interval_s
            if known.running or not due:
                return known
            known = dataclasses.replace(known, running=True)
            self._answers[question.arguments] = known
        try:
            self._pool.submit(lambda: self._execute_command(question))
        except ThreadPoolFull as error:
            refused = dataclasses.replace(known, running=False, error=str(error))
            return self._store_result(
                question, dataclasses.replace(refused, tried_s=self._clock.now_s())
            )
        return known

    def stop(self) -> None:
        """Stop running commands, and kill the command that is running."""
        self._stopping.set()
        self._pool.stop(_RUNNER_STOP_TIMEOUT_S)

    def _execute_command(self, question: PageCommand) -> None:
        """Run a command and store the result. If the command raises an exception, store the error
        with the previous output."""
        began_s = self._clock.now_s()
        before = self.get_last_result(question)
        error, found = "the run was aborted", before.output
        try:
            error, found = self._try_run_command(question, before.output)
        finally:
            now_s = self._clock.now_s()
            self._store_result(
                question,
                CommandResult(
                    output=found,
                    at_ms=before.at_ms if error else self._clock.wall_ms(),
                    took_s=now_s - began_s,
                    error=error,
                    tried_s=now_s,
                ),
            )

    def _try_run_command(
        self, question: PageCommand, before: JsonObject | None
    ) -> tuple[str, JsonObject | None]:
        """Run a command. Return ("", the new output) if it succeeded, otherwise (the error, the
        previous output `before`)."""
        try:
            printed = self._run(question.arguments, question.timeout_s, self._stopping.is_set)
            return "", question.parse_output(json.loads(printed))
        except CommandFailedError as raised:
            return str(raised), before
        except Exception as raised:  # noqa: BLE001 - the page shows it
            return f"mm2 {shlex.join(question.arguments)}: invalid output: {raised!r}", before

    def _store_result(self, question: PageCommand, answer: CommandResult) -> CommandResult:
        if answer.error:
            _log.debug("a command for the status page failed: %s", answer.error)
        with self._lock:
            self._answers[question.arguments] = answer
        return answer


def result_to_json(answer: CommandResult) -> JsonObject:
    """Encode a command result as JSON, with its time and whether the command is running."""
    return {
        "result": answer.output,
        "result_ms": answer.at_ms,
        "took_s": None if answer.took_s is None else round(answer.took_s, 1),
        "error": answer.error,
        "running": answer.running,
    }


_CHILD_POLL_INTERVAL_S = 0.05
_CLI_MODULE = "mm2.cli.main"
_OUTPUT_BYTES_MAX = 64 * 1024 * 1024
_ERROR_CHARS_MAX = 500
_ANSWER_EXIT_CODES = (exit_codes.DONE, exit_codes.FAILED)
"""Exit codes of commands that printed a result. A failover plan with the verdict NO-GO exits with
FAILED."""


def run_command(words: Sequence[str], timeout_s: float, gone: Callable[[], bool]) -> bytes:
    """Run `mm2` as a child process; implements `RunCommand`."""
    line = shlex.join(["mm2", *words])
    try:
        with tempfile.TemporaryDirectory(prefix="mm2-page-", ignore_cleanup_errors=True) as name:
            return _run_child_process(
                words, pathlib.Path(name), line=line, timeout_s=timeout_s, gone=gone
            )
    except (OSError, ProcessStartError) as error:
        raise CommandFailedError(f"{line}: {error}") from error


def _run_child_process(
    words: Sequence[str],
    folder: pathlib.Path,
    *,
    line: str,
    timeout_s: float,
    gone: Callable[[], bool],
) -> bytes:
    answer, complaints = folder / "answer", folder / "complaints"
    with answer.open("wb") as output, complaints.open("wb") as errors:
        child = child_processes.start_process(
            child_processes.build_python_command(_CLI_MODULE, *words),
            output=output,
            stderr=errors,
            env={**os.environ, "TMPDIR": str(folder)},
        )
        system_clock.wait_until(
            lambda: child.poll() is not None or gone(),
            timeout_s=timeout_s,
            interval_s=_CHILD_POLL_INTERVAL_S,
        )
        status = child.poll()
        if status is None:
            child.kill()
            why = "the process is stopping" if gone() else f"timed out after {timeout_s:g} s"
            raise CommandFailedError(f"{line} was ended: {why}")
    size = answer.stat().st_size
    if status in _ANSWER_EXIT_CODES and 0 < size <= _OUTPUT_BYTES_MAX:
        return answer.read_bytes()
    said = complaints.read_text(errors="replace").strip().rpartition("\n")[2]
    raise CommandFailedError(
        f"{line} exited with {status}: {said[:_ERROR_CHARS_MAX] or 'no error output'}"
    )
