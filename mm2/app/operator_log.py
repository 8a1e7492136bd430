"""What operators do to running flows: a log line for each action, and a durable record of it.

The line says who asked, for what, and what was answered. What was carried out is also recorded in
the flow's receipts topic on its target, as receipts of kind `operator-action`; what was refused is
logged only. The topic keeps the last action of each kind, see `Action.id`.
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

from connect_runtime.base import amounts, clock, deadline, errors
from connect_runtime.kafka_client import errors as kafka_errors
from connect_runtime.rest import change_log
from connect_runtime.system import clock as system_clock
from connect_runtime.system import threads
from mm2.app import connections, flow_plan
from mm2.app.settings import settings as app_settings
from mm2.cluster import admin, record_writer
from mm2.core import flows, naming
from mm2.core.configs import live, own_keys
from mm2.formats import receipt

UNWRITTEN_MAX = 1_000
"""So many actions may wait to be recorded."""
WRITE_S = 30.0
"""The actions on one flow that wait are written together, within this time."""
CLIENT = "operator-log"
"""The end of the client ids with which the target is asked and written to."""
_POLL_S = 0.1
_RELOAD = "reload"
_NAMED_MAX = 5
_ENDED = "mm2 ended before it was acknowledged"
_REFUSED = 400
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One thing that an operator did, in the words of `mm2`'s commands; `flow` "" for none.

    `topic` is of the source, "" for the whole flow. `id` names what was done without its value, so
    that a later throttle of the same topic replaces an earlier one in the compacted topic.
    """

    flow: str
    words: str
    id: str
    topic: str = ""


def actions(change: change_log.Change) -> tuple[Action, ...]:
    """What a REST request asks for: one action or, where it sets several keys, one for each."""
    names = [parse.unquote(each) for each in change.path.split("/")[1:]]
    flow = f"{names[0]}->{names[1]}" if len(names) > 1 else ""
    if len(names) < 4 or names[2] != "connectors":
        return (Action(flow=flow, words=f"{change.method} {change.path}", id="request"),)
    connector, rest = names[3], names[4:]
    is_source = connector == flow_plan.SOURCE
    what = flow if is_source else f"{connector} of {flow}"

    def action(words: str, name: str, topic: str = "") -> Action:
        own = name if is_source else f"{name}-{connector}"
        return Action(flow=flow, words=words, id=own, topic=topic)

    match change.method, rest:
        case ("PUT", ["pause" | "resume" | "stop" as verb]):
            return (action(f"{verb} {what}", verb),)
        case ("POST", ["restart"]):
            return (action(f"restart {what}", "restart"),)
        case ("POST", ["tasks", number, "restart"]):
            return (action(f"restart task {number} of {what}", f"restart-task-{number}"),)
        case ("PATCH", ["config"]):
            found = tuple(action(*each) for each in _set(what, change.body))
            return found or (action(f"change nothing of {what}", "change"),)
        case ("PUT", ["config"]):
            return (action(f"configure {what}", "configure"),)
        case ("PATCH", ["offsets"]):
            return (action(f"alter the offsets of {what}", "alter-offsets"),)
        case ("DELETE", ["offsets"]):
            return (action(f"reset the offsets of {what}", "reset-offsets"),)
        case ("DELETE", []):
            return (action(f"delete {what}", "delete"),)
    return (action(f"{change.method} {change.path}", "request"),)


def _set(what: str, body: bytes) -> Iterator[tuple[str, str, str]]:
    """Words, id and topic. Values only of what operators set while a flow runs: others may be
    secrets."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, Mapping):
        yield f"change the configuration of {what}", "change", ""
        return
    others = []
    for key, value in sorted(found.items()):
        if key == own_keys.LIVE_THROTTLE:
            yield f"throttle {what}: {_limit(value)}", "throttle", ""
        elif key.startswith(own_keys.LIVE_TOPIC_THROTTLE):
            topic = key.removeprefix(own_keys.LIVE_TOPIC_THROTTLE)
            yield f"throttle topic {topic} of {what}: {_limit(value)}", "throttle", topic
        elif key.startswith(own_keys.LIVE_PAUSED_TOPIC):
            topic = key.removeprefix(own_keys.LIVE_PAUSED_TOPIC)
            verb = "resume" if value is None else "pause"
            yield f"{verb} topic {topic} of {what}", verb, topic
        elif live.is_live(key):
            yield f"set {key}={value} of {what}", "set", ""
        else:
            others.append(key)
    if others:
        yield f"change {', '.join(others)} of {what}", "change", ""


def _limit(value: object) -> str:
    return "as configured" if value is None else str(value)


# Recording


def record_id(action: str) -> str:
    """Of the receipt of an action with this id, beside its topic."""
    return f"{receipt.ReceiptKind.OPERATOR_ACTION.value}-{action}"


class Target(Protocol):
    """The target of a flow. One thread at a time."""

    @property
    def admin(self) -> admin.Admin: ...

    def writer(self, topic: str) -> record_writer.RecordWriter:
        """Whoever asks for it closes it."""


OpenTarget = Callable[
    [app_settings.Settings, flows.Flow], contextlib.AbstractContextManager[Target]
]


def open_target(
    settings: app_settings.Settings, flow: flows.Flow
) -> contextlib.AbstractContextManager[Target]:
    """The flow's target, as its tasks reach it. Raises `FatalError` for unusable settings."""
    return contextlib.closing(
        connections.target_cluster(
            settings, flow, client_id=f"mm2-{flow.name}-{CLIENT}", clock=system_clock.SystemClock()
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Entry:
    """An action that is not recorded yet; `settings` were in force when it was done."""

    flow: flows.Flow
    settings: app_settings.Settings
    words: str
    record: receipt.Receipt


class OperatorLog:
    """Any thread logs, and never waits: one thread of its own, begun when first needed, writes to
    the targets. What cannot be recorded is a warning, which says that only the log has it."""

    def __init__(
        self,
        settings: Callable[[], app_settings.Settings],
        *,
        now: clock.Clock,
        open_target: OpenTarget = open_target,
    ) -> None:
        """`settings` returns those in force."""
        self._settings = settings
        self._clock = now
        self._open_target = open_target
        self._threads = threads.Threads(on_unasked_end=_log_end)
        self._thread: threads.OwnedThread | None = None
        self._changed = threading.Condition()
        self._unwritten: list[_Entry] = []
        """In order, with what is being written now; guarded by `_changed`."""
        self._silent: set[str] = set()
        """Flows whose target did not answer last time: the others come first."""
        self._is_closed = False
        self._give_up_s = math.inf

    def log_change(self, change: change_log.Change) -> None:
        """A request over REST. What was refused is a warning, with the status."""
        found = actions(change)
        words = "; ".join(each.words for each in found)
        operator = change.user or change.client or "unknown"
        if 0 < change.status < _REFUSED:
            _log_action(operator, words, flow=found[0].flow)
            for each in found:
                self._record(operator, each, self._settings())
            return
        told = f"refused with {change.status}" if change.status else "not answered"
        fields = {"operator": operator, "flow": found[0].flow}
        _log.warning("operator %s: %s: %s", operator, words, told, extra=fields)

    def log_reload(self, operator: str) -> None:
        """A request to read the file again. Call `record_reload` once that is done."""
        _log_action(operator, _RELOAD)

    def record_reload(self, operator: str, *, before: app_settings.Settings) -> None:
        """For each flow of the file, as it is, and as it was: `before`."""
        found = {name: each for each in (before, self._settings()) for name in _flows(each)}
        for name, settings in found.items():
            self._record(operator, Action(flow=name, words=_RELOAD, id=_RELOAD), settings)

    def close(self, timeout_s: float) -> None:
        """Wait up to `timeout_s` until what was done is recorded; for the rest there is a warning.
        Whatever is logged later is not recorded."""
        with self._changed:
            self._is_closed = True
            self._give_up_s = self._clock.now_s() + timeout_s
            if self._thread is not None:
                self._thread.stop.set()
            self._changed.notify_all()
        self._threads.stop_all(timeout_s)
        with self._changed:
            left, self._unwritten = self._unwritten, []
        _warn(left, _ENDED)

    def _record(self, operator: str, action: Action, settings: app_settings.Settings) -> None:
        flow = next((each for each in settings.flows if each.name == action.flow), None)
        if flow is None:
            return
        record = receipt.Receipt(
            topic=action.topic,
            partition=receipt.NO_PARTITION,
            id=record_id(action.id),
            kind=receipt.ReceiptKind.OPERATOR_ACTION,
            flow=flow.name,
            at_ms=self._clock.wall_ms(),
            detail=_words(operator, action.words),
        )
        entry = _Entry(flow=flow, settings=settings, words=action.words, record=record)
        with self._changed:
            if self._is_closed:
                why_not = _ENDED
            elif len(self._unwritten) >= UNWRITTEN_MAX:
                why_not = f"{UNWRITTEN_MAX} others are still to be written"
            else:
                self._unwritten.append(entry)
                if self._thread is None:
                    self._thread = self._threads.start(CLIENT, self._run)
                self._changed.notify_all()
                return
        _warn([entry], why_not)

    # On the thread that writes

    def _run(self, stop: threading.Event) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._unwritten or stop.is_set())
                found = list(self._unwritten)
            if not found or self._clock.now_s() >= self._give_up_s:
                return
            names = dict.fromkeys(each.flow.name for each in found)
            for name in sorted(names, key=self._silent.__contains__):
                failed = self._write([each for each in found if each.flow.name == name])
                (self._silent.add if failed else self._silent.discard)(name)
                for why_not, entries in failed.items():
                    _warn(entries, why_not)

    def _write(self, entries: Sequence[_Entry]) -> Mapping[str, list[_Entry]]:
        """Actions on one flow. Returns what was not recorded, by the reason."""
        newest, told = entries[-1], dict[_Entry, str]()
        try:
            with self._open_target(newest.settings, newest.flow) as target:
                self._write_to(target, entries, told)
        except errors.ConnectError as error:
            told = dict.fromkeys(entries, str(error)) | told
        except Exception as error:  # noqa: BLE001 - the thread goes on with what comes next
            _log.exception("recording operators' actions on %s", newest.flow.name)
            told = dict.fromkeys(entries, f"an error in mm2 itself: {error!r}") | told
        with self._changed:
            waited, done = frozenset(self._unwritten), frozenset(entries)
            self._unwritten = [each for each in self._unwritten if each not in done]
        failed: dict[str, list[_Entry]] = {}
        for each in entries:
            if told[each] and each in waited:  # else `close` has warned
                failed.setdefault(told[each], []).append(each)
        return failed

    def _write_to(self, target: Target, entries: Sequence[_Entry], told: dict[_Entry, str]) -> None:
        """`told` gets why each was not written, "" where it was."""
        topic = naming.receipts_topic(entries[-1].flow.source)
        end = deadline.Deadline.after(WRITE_S, now_s=self._clock.now_s())
        described = target.admin.describe_topics([topic], end.left_s(self._clock.now_s()))
        failure = described.first_failure()
        if isinstance(failure, kafka_errors.TopicMissingError):
            raise errors.RetriableError(
                "the topic does not exist yet; the flow creates it when it starts to replicate"
            )
        if failure is not None:
            raise failure

        def note(entry: _Entry, error: errors.ConnectError | None) -> None:
            told.setdefault(entry, "" if error is None else str(error))

        writer = target.writer(topic)
        try:
            for each in entries:
                key, value = receipt.encode(each.record)
                writer.write(key, value, on_written=functools.partial(note, each))
            late = ""
            while len(told) < len(entries) and not late:
                writer.poll(_POLL_S)
                late = self._late(end)
            for each in entries:
                told.setdefault(each, late)
        finally:
            writer.close(0.0)

    def _late(self, end: deadline.Deadline) -> str:
        """Why there is no more waiting for an acknowledgement, "" while there is."""
        now_s = self._clock.now_s()
        if now_s >= self._give_up_s:
            return _ENDED
        return f"not acknowledged within {WRITE_S:g} s" if end.passed(now_s) else ""


def _flows(settings: app_settings.Settings) -> list[str]:
    return [each.name for each in settings.flows]


def _words(operator: str, words: str) -> str:
    return f"operator {operator}: {words}"


def _log_action(operator: str, words: str, *, flow: str = "") -> None:
    _log.info("%s", _words(operator, words), extra={"operator": operator, "flow": flow})


def _warn(entries: Sequence[_Entry], why_not: str) -> None:
    """One line for each flow."""
    for name in dict.fromkeys(each.flow.name for each in entries):
        mine = [each for each in entries if each.flow.name == name]
        flow = mine[0].flow
        named = "; ".join(each.words for each in mine[:_NAMED_MAX])
        more = len(mine) - _NAMED_MAX
        _log.warning(
            "%s: %s not recorded in %s on %s: %s. Only this log has: %s%s",
            name,
            amounts.counted(len(mine), "operator action"),
            naming.receipts_topic(flow.source),
            flow.target,
            why_not,
            named,
            f"; and {more} more" if more > 0 else "",
            extra={"flow": name},
        )


def _log_end(end: threads.UnaskedEnd) -> None:
    _log.error(
        "until mm2 is restarted, operator actions are logged but not stored as receipts; the "
        "recording thread failed: %r",
        end.error,
    )
