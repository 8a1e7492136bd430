"""Logs operator actions on running flows, and records them durably on the target.

The log line names the operator, the requested action and the result. Executed actions are also
recorded in the flow's incident topic on its target, with kind `operator-action`. A rejected action
is only logged. The compacted topic keeps the last action of each kind (`OperatorAction.id`).
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib import parse

from connect_runtime.base import plurals
from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.errors import ConnectError, RetriableError
from connect_runtime.kafka.client_errors import TopicMissingError
from connect_runtime.rest.audit_log import AuditedRequest
from connect_runtime.system.supervised_threads import (
    StoppableThread,
    ThreadGroup,
    UnexpectedThreadEnd,
)
from connect_runtime.system.system_clock import SystemClock
from mm2.clusters import flow_kafka_clients
from mm2.config import (
    flow_connector_configs,
    mirror_connector_config_keys,
    pause_and_throttle_overrides,
)
from mm2.config.mm2_settings import Mm2Settings
from mm2.formats import incident_records
from mm2.formats.incident_records import Incident, IncidentKind
from mm2.kafka.kafka_client_interfaces import Admin, RecordWriter
from mm2.topics import replication_policy
from mm2.topics.flow_config import Flow

MAX_PENDING_ACTIONS = 1_000
"""Maximum number of actions that are waiting to be recorded."""
WRITE_TIMEOUT_S = 30.0
"""Timeout for writing the pending actions of one flow. The actions of a flow are written
together."""
CLIENT_ID_SUFFIX = "operator-log"
"""Suffix of the client ids used for connections to the target."""
_POLL_INTERVAL_S = 0.1
_RELOAD_ID = "reload"
_MAX_NAMED_ACTIONS = 5
_ENDED_REASON = "mm2 was stopped before the target acknowledged the records"
_MIN_REFUSED_STATUS = 400
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorAction:
    """One operator action. `text` describes the action in the words of the corresponding `mm2`
    command."""

    flow: str
    """Flow name, "" for none."""
    text: str
    id: str
    """Kind of action, for example `throttle`, without its value. It is part of the record key in
    the compacted topic, so that a later throttle of the same topic replaces an earlier one."""
    topic: str = ""
    """Source topic, or "" if the action applies to the whole flow."""


def parse_actions(change: AuditedRequest) -> tuple[OperatorAction, ...]:
    """Parse a REST request into one action, or into one action for each key that the request
    sets."""
    names = [parse.unquote(each) for each in change.path.split("/")[1:]]
    flow = f"{names[0]}->{names[1]}" if len(names) > 1 else ""
    if len(names) < 4 or names[2] != "connectors":
        return (OperatorAction(flow=flow, text=f"{change.method} {change.path}", id="request"),)
    connector, rest = names[3], names[4:]
    is_source = connector == flow_connector_configs.SOURCE_CONNECTOR
    what = flow if is_source else f"{connector} of {flow}"

    def create_action(words: str, name: str, topic: str = "") -> OperatorAction:
        own = name if is_source else f"{name}-{connector}"
        return OperatorAction(flow=flow, text=words, id=own, topic=topic)

    match change.method, rest:
        case ("PUT", ["pause" | "resume" | "stop" as verb]):
            return (create_action(f"{verb} {what}", verb),)
        case ("POST", ["restart"]):
            return (create_action(f"restart {what}", "restart"),)
        case ("POST", ["tasks", number, "restart"]):
            return (create_action(f"restart task {number} of {what}", f"restart-task-{number}"),)
        case ("PATCH", ["config"]):
            found = tuple(create_action(*each) for each in _parse_config_patch(what, change.body))
            return found or (create_action(f"change nothing of {what}", "change"),)
        case ("PUT", ["config"]):
            return (create_action(f"configure {what}", "configure"),)
        case ("PATCH", ["offsets"]):
            return (create_action(f"alter the offsets of {what}", "alter-offsets"),)
        case ("DELETE", ["offsets"]):
            return (create_action(f"reset the offsets of {what}", "reset-offsets"),)
        case ("DELETE", []):
            return (create_action(f"delete {what}", "delete"),)
    return (create_action(f"{change.method} {change.path}", "request"),)


def _parse_config_patch(what: str, body: bytes) -> Iterator[tuple[str, str, str]]:
    """Yield (text, action id, topic) of each operator action in a config patch.

    The text contains the values of operator overrides. The values of other keys are omitted,
    because they may be secret.
    """
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, Mapping):
        yield f"change the configuration of {what}", "change", ""
        return
    others = []
    for key, value in sorted(found.items()):
        if key == mirror_connector_config_keys.OVERRIDE_THROTTLE:
            yield f"throttle {what}: {_format_rate_limit(value)}", "throttle", ""
        elif key.startswith(mirror_connector_config_keys.OVERRIDE_TOPIC_THROTTLE):
            topic = key.removeprefix(mirror_connector_config_keys.OVERRIDE_TOPIC_THROTTLE)
            yield (
                f"throttle topic {topic} of {what}: {_format_rate_limit(value)}",
                "throttle",
                topic,
            )
        elif key.startswith(mirror_connector_config_keys.OVERRIDE_PAUSED_TOPIC):
            topic = key.removeprefix(mirror_connector_config_keys.OVERRIDE_PAUSED_TOPIC)
            verb = "resume" if value is None else "pause"
            yield f"{verb} topic {topic} of {what}", verb, topic
        elif pause_and_throttle_overrides.is_override_key(key):
            yield f"set {key}={value} of {what}", "set", ""
        else:
            others.append(key)
    if others:
        yield f"change {', '.join(others)} of {what}", "change", ""


def _format_rate_limit(value: object) -> str:
    return "as configured" if value is None else str(value)


# Recording


def build_record_id(action: str) -> str:
    """Build the id of the incident record that stores an operator action. `action` is the action's
    `OperatorAction.id`."""
    return f"{IncidentKind.OPERATOR_ACTION.value}-{action}"


class ActionTarget(Protocol):
    """Gives access to a flow's target cluster. Not thread-safe."""

    @property
    def admin(self) -> Admin: ...

    def create_writer(self, topic: str) -> RecordWriter:
        """Create a record writer; the caller must close it."""


OpenActionTarget = Callable[[Mm2Settings, Flow], contextlib.AbstractContextManager[ActionTarget]]


def open_action_target(
    settings: Mm2Settings, flow: Flow
) -> contextlib.AbstractContextManager[ActionTarget]:
    """Connect to the flow's target with the same settings as the flow's tasks. Raises `FatalError`
    for invalid settings."""
    return contextlib.closing(
        flow_kafka_clients.connect_target_cluster(
            settings, flow, client_id=f"mm2-{flow.name}-{CLIENT_ID_SUFFIX}", clock=SystemClock()
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _PendingAction:
    """An operator action that is not recorded yet, with the mm2 configuration that was in effect
    when it was executed."""

    flow: Flow
    settings: Mm2Settings
    words: str
    record: Incident


class OperatorLog:
    """Logs and records operator actions. Thread-safe and non-blocking: a background thread, started
    on demand, writes the actions to the flows' target clusters. A warning is logged for actions
    that cannot be recorded."""

    def __init__(
        self,
        settings: Callable[[], Mm2Settings],
        *,
        now: Clock,
        open_target: OpenActionTarget = open_action_target,
    ) -> None:
        """Create an operator log. `settings` is a function that returns the mm2 configuration
        currently in effect; it is called when an action is logged."""
        self._settings = settings
        self._clock = now
        self._open_target = open_target
        self._threads = ThreadGroup(on_unexpected_end=_log_thread_death)
        self._thread: StoppableThread | None = None
        self._changed = threading.Condition()
        self._unwritten: list[_PendingAction] = []
        """Pending actions in order, including those being written. Guarded by `_changed`."""
        self._silent: set[str] = set()
        """Flows whose target did not respond to the last write. Their actions are written after
        those of other flows."""
        self._is_closed = False
        self._give_up_s = math.inf

    def log_operator_request(self, change: AuditedRequest) -> None:
        """Log an operator's REST request, and record its actions if it succeeded. A rejected
        request is logged as a warning with its HTTP status."""
        found = parse_actions(change)
        words = "; ".join(each.text for each in found)
        operator = change.user or change.client or "unknown"
        if 0 < change.status < _MIN_REFUSED_STATUS:
            _log_action(operator, words, flow=found[0].flow)
            for each in found:
                self._enqueue_action(operator, each, self._settings())
            return
        told = f"rejected with {change.status}" if change.status else "no response"
        fields = {"operator": operator, "flow": found[0].flow}
        _log.warning("operator %s: %s: %s", operator, words, told, extra=fields)

    def log_reload_request(self, operator: str) -> None:
        """Log a reload request. Call `record_reload` after the reload."""
        _log_action(operator, _RELOAD_ID)

    def record_reload(self, operator: str, *, before: Mm2Settings) -> None:
        """Record a reload for each flow in the new configuration file or in the previous one
        (`before`)."""
        found = {
            name: each for each in (before, self._settings()) for name in _list_flow_names(each)
        }
        for name, settings in found.items():
            self._enqueue_action(
                operator, OperatorAction(flow=name, text=_RELOAD_ID, id=_RELOAD_ID), settings
            )

    def close(self, timeout_s: float) -> None:
        """Wait up to `timeout_s` seconds until pending actions are recorded, and warn about actions
        that are still pending. Actions logged after closing are not recorded."""
        with self._changed:
            self._is_closed = True
            self._give_up_s = self._clock.now_s() + timeout_s
            if self._thread is not None:
                self._thread.stop.set()
            self._changed.notify_all()
        self._threads.stop_all(timeout_s)
        with self._changed:
            left, self._unwritten = self._unwritten, []
        _warn_about_unrecorded_actions(left, _ENDED_REASON)

    def _enqueue_action(self, operator: str, action: OperatorAction, settings: Mm2Settings) -> None:
        flow = next((each for each in settings.flows if each.name == action.flow), None)
        if flow is None:
            return
        record = Incident(
            topic=action.topic,
            partition=incident_records.NO_PARTITION,
            id=build_record_id(action.id),
            kind=IncidentKind.OPERATOR_ACTION,
            flow=flow.name,
            at_ms=self._clock.wall_ms(),
            detail=_format_operator_line(operator, action.text),
        )
        entry = _PendingAction(flow=flow, settings=settings, words=action.text, record=record)
        with self._changed:
            if self._is_closed:
                why_not = _ENDED_REASON
            elif len(self._unwritten) >= MAX_PENDING_ACTIONS:
                why_not = f"{MAX_PENDING_ACTIONS} other actions have not been written yet"
            else:
                self._unwritten.append(entry)
                if self._thread is None:
                    self._thread = self._threads.start(CLIENT_ID_SUFFIX, self._run)
                self._changed.notify_all()
                return
        _warn_about_unrecorded_actions([entry], why_not)

    # On the writing thread

    def _run(self, stop: threading.Event) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._unwritten or stop.is_set())
                found = list(self._unwritten)
            if not found or self._clock.now_s() >= self._give_up_s:
                return
            names = dict.fromkeys(each.flow.name for each in found)
            for name in sorted(names, key=self._silent.__contains__):
                failed = self._write_actions([each for each in found if each.flow.name == name])
                (self._silent.add if failed else self._silent.discard)(name)
                for why_not, entries in failed.items():
                    _warn_about_unrecorded_actions(entries, why_not)

    def _write_actions(
        self, entries: Sequence[_PendingAction]
    ) -> Mapping[str, list[_PendingAction]]:
        """Write the actions of one flow to its target. Return the actions that could not be
        written, grouped by the reason."""
        newest, told = entries[-1], dict[_PendingAction, str]()
        try:
            with self._open_target(newest.settings, newest.flow) as target:
                self._write_actions_to_target(target, entries, told)
        except ConnectError as error:
            told = dict.fromkeys(entries, str(error)) | told
        except Exception as error:  # noqa: BLE001 - the thread continues with later actions
            _log.exception("recording operator actions on %s", newest.flow.name)
            told = dict.fromkeys(entries, f"internal error in mm2: {error!r}") | told
        with self._changed:
            waited, done = frozenset(self._unwritten), frozenset(entries)
            self._unwritten = [each for each in self._unwritten if each not in done]
        failed: dict[str, list[_PendingAction]] = {}
        for each in entries:
            if told[each] and each in waited:  # otherwise `close` has warned
                failed.setdefault(told[each], []).append(each)
        return failed

    def _write_actions_to_target(
        self,
        target: ActionTarget,
        entries: Sequence[_PendingAction],
        told: dict[_PendingAction, str],
    ) -> None:
        """Write actions to the incident topic on the flow's target. Set `told[action]` to "" if the
        action was written, otherwise to the reason why it was not."""
        topic = replication_policy.format_incidents_topic(entries[-1].flow.source)
        end = Deadline.after(WRITE_TIMEOUT_S, now_s=self._clock.now_s())
        described = target.admin.describe_topics([topic], end.remaining_s(self._clock.now_s()))
        failure = described.get_first_failure()
        if isinstance(failure, TopicMissingError):
            raise RetriableError(
                "the topic does not exist yet; the flow creates the topic when replication starts"
            )
        if failure is not None:
            raise failure

        def record_result(entry: _PendingAction, error: ConnectError | None) -> None:
            told.setdefault(entry, "" if error is None else str(error))

        writer = target.create_writer(topic)
        try:
            for each in entries:
                key, value = incident_records.encode_incident(each.record)
                writer.write(key, value, on_written=functools.partial(record_result, each))
            late = ""
            while len(told) < len(entries) and not late:
                writer.poll(_POLL_INTERVAL_S)
                late = self._explain_missing_acknowledgement(end)
            for each in entries:
                told.setdefault(each, late)
        finally:
            writer.close(0.0)

    def _explain_missing_acknowledgement(self, end: Deadline) -> str:
        """Return the reason to stop waiting for acknowledgements, or "" to continue waiting."""
        now_s = self._clock.now_s()
        if now_s >= self._give_up_s:
            return _ENDED_REASON
        return f"not acknowledged within {WRITE_TIMEOUT_S:g} s" if end.is_expired(now_s) else ""


def _list_flow_names(settings: Mm2Settings) -> list[str]:
    return [each.name for each in settings.flows]


def _format_operator_line(operator: str, words: str) -> str:
    return f"operator {operator}: {words}"


def _log_action(operator: str, words: str, *, flow: str = "") -> None:
    _log.info(
        "%s", _format_operator_line(operator, words), extra={"operator": operator, "flow": flow}
    )


def _warn_about_unrecorded_actions(entries: Sequence[_PendingAction], why_not: str) -> None:
    """Log one warning per flow for actions that could not be recorded."""
    for name in dict.fromkeys(each.flow.name for each in entries):
        mine = [each for each in entries if each.flow.name == name]
        flow = mine[0].flow
        named = "; ".join(each.words for each in mine[:_MAX_NAMED_ACTIONS])
        more = len(mine) - _MAX_NAMED_ACTIONS
        _log.warning(
            "%s: %s not recorded in %s on %s: %s. Recorded only in this log: %s%s",
            name,
            plurals.format_count(len(mine), "operator action"),
            replication_policy.format_incidents_topic(flow.source),
            flow.target,
            why_not,
            named,
            f"; and {more} more" if more > 0 else "",
            extra={"flow": name},
        )


def _log_thread_death(end: UnexpectedThreadEnd) -> None:
    _log.error(
        "the thread that records operator actions failed; until mm2 is restarted, the actions are "
        "logged but not stored as incidents: %r",
        end.error,
    )
