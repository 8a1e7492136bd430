"""`mm2 topic`: what operators decide about one topic of a flow."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import secrets
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from connect_runtime.base import errors
from connect_runtime.system import clock as system_clock
from mm2.app import exits, terminal
from mm2.app.cli import config_file, flow_names, usual
from mm2.app.settings import load
from mm2.core import commands, naming
from mm2.core.configs import kinds, own_values
from mm2.formats import map_record

if TYPE_CHECKING:
    from connect_runtime.base import ids
    from mm2.app import flow_api, topic_reset
    from mm2.app.settings import settings as app_settings

_ID_BYTES = 8
_OFFSET_MAX = 2**63 - 1
_ASK_S = 15.0
_LOOK_S = 30.0
_DECISIONS, _ERROR = "decisions", "error"
_CODES: Mapping[bool | None, int] = {
    True: exits.DONE,
    False: exits.FAILED,
    None: exits.UNKNOWN,
}
"""By `topic_reset.Outcome.replicating`."""


@click.group("topic")
def group() -> None:
    """Decide about one topic of a flow."""


@group.command("reset")
@click.argument("flow", metavar="FLOW")
@click.argument("topic", metavar="TOPIC")
@usual.partitions("N", "Only this partition; repeatable.  [default: all of the topic]")
@click.option(
    "--from",
    "start",
    required=True,
    metavar="earliest|latest|TIMESTAMP|offset:N",
    help="Where replication begins again: a time such as 2026-01-31T08:00:00Z or milliseconds "
    "since 1970, or, with --partition, a source offset.",
)
@usual.timeout(60.0, "How long to wait until the partitions replicate again.")
@config_file.option("Where the flow is configured.")
@usual.as_json
def reset(
    *,
    flow: str,
    topic: str,
    partitions: tuple[int, ...],
    start: str,
    timeout_s: float,
    file: pathlib.Path,
    as_json: bool,
) -> int:
    """Begin the replication of TOPIC again at another position of the source.

    The remedy for a halted partition, of a topic that was recreated for example. TOPIC is the
    source's name. The target topic keeps what it holds; what is replicated from now on is appended
    to it.

    The decision is recorded on the target cluster. The flow need not be stopped: its tasks that
    have the topic are restarted on every node, and the command waits until the partitions replicate
    again. If a node cannot be reached from here, it waits only until they have begun. If the flow
    is not running, the decision takes effect when it starts.

    \b
    Examples:
      mm2 topic reset 'east->west' orders --from earliest
      mm2 topic reset 'east->west' orders --from latest
      mm2 topic reset 'east->west' orders --partition 3 --from 2026-01-31T08:00:00Z
      mm2 topic reset 'east->west' orders --partition 3 --from offset:1204
    """
    settings = load.load(file, environment=os.environ)
    chosen = flow_names.find(settings, flow, hint="FLOW")
    position = parse_position(start)
    if position.startswith(map_record.AT_OFFSET) and not partitions:
        raise click.UsageError(
            "each partition has offsets of its own: name one with --partition as well"
        )
    # Here and not above: wrong input is told before Kafka's library is loaded.
    from mm2.app import topic_reset

    order = topic_reset.Order(flow=chosen, topic=topic, partitions=partitions, position=position)
    try:
        return _Reset(order, settings, as_json=as_json).run(timeout_s)
    except topic_reset.WrongRequestError as error:
        raise click.UsageError(str(error)) from error


class _Reset:
    """One call of `mm2 topic reset`."""

    def __init__(
        self, order: topic_reset.Order, settings: app_settings.Settings, *, as_json: bool
    ) -> None:
        self._order = order
        self._settings = settings
        self._as_json = as_json
        self._clock = system_clock.SystemClock()
        self._said: dict[str, Any] = {"flow": order.flow.name, "topic": order.topic}

    def run(self, timeout_s: float) -> int:
        """Returns the exit code. Raises `ConnectError` if the decision could not be recorded: later
        failures are reported beside what was recorded."""
        from mm2.app import cluster_wait, connections, noise
        from mm2.app.looks import sides

        flow = self._order.flow
        cluster_wait.require(
            [
                connections.source_access(self._settings, flow),
                connections.target_access(self._settings, flow),
            ],
            timeout_s=timeout_s,
            tell=lambda line: terminal.print_line(line, err=True),
            clock=self._clock,
        )
        with (
            noise.to_file() as log_file,
            sides.Sides(self._settings, flow, purpose="reset", clock=self._clock) as both,
        ):
            client_id = f"mm2-{flow.name}-reset"
            ledger = connections.ledger(
                self._settings, flow, client_id=client_id, clock=self._clock
            )
            try:
                code = self._run(both, ledger, timeout_s)
            except errors.ConnectError as error:
                if _DECISIONS not in self._said:
                    raise
                code = self._failed(error)
            finally:
                ledger.close(1.0)
            log_file.keep = _ERROR in self._said
        if self._as_json:
            click.echo(json.dumps(self._said, indent=2))
        return code

    def _run(self, both: Any, ledger: Any, timeout_s: float) -> int:
        from mm2.app import topic_reset
        from mm2.app.looks import workers
        from mm2.app.offsets import linking

        order, flow = self._order, self._order.flow
        decisions = topic_reset.record(
            order,
            both.source.admin,
            ledger,
            now=self._clock,
            new_id=lambda: secrets.token_hex(_ID_BYTES),
        )
        self._say(_DECISIONS, [each.describe() for each in decisions])
        self._line(f"recorded in {naming.map_topic(flow.source)} of cluster {flow.target}")

        props = linking.plan(self._settings, flow).worker_props

        def look() -> workers.Workers:
            return workers.look(both.target, props, clock=self._clock, timeout_s=_LOOK_S)

        group, api = look(), _api(self._settings.file, flow.name)
        state = topic_reset.running(group, topic=order.topic, here=api is not None)
        self._said["running"] = state.value
        partitions = [each.partition for each in decisions]
        if state is not topic_reset.Running.NO and state is not topic_reset.Running.STOPPED:
            by_record = topic_reset.restart_by_record(
                both.target, props, now=self._clock, hosts=group.hosts or ()
            )
            self._say("restarted", [_restart(api, by_record, partitions)])
        if state is not topic_reset.Running.YES:
            self._say("outcome", [_takes_effect(state, self._settings.file, order)])
            return exits.DONE
        awaiting = topic_reset.Awaiting(
            decisions=decisions,
            ledger=ledger,
            look=lambda: _seen(self._settings.file, flow.name),
            why_not=lambda: topic_reset.failed_tasks(look()),
            nodes=lambda partitions: topic_reset.nodes(look(), partitions),
            now=self._clock,
            pause=threading.Event().wait,
        )
        outcomes = awaiting.outcomes(timeout_s)
        self._say("outcome", [each.describe() for each in outcomes])
        return exits.worst([_CODES[each.replicating] for each in outcomes])

    def _failed(self, error: errors.ConnectError) -> int:
        """The decision is recorded; what came after that failed."""
        operator = commands.Operator(file=str(self._settings.file))
        self._said[_ERROR] = str(error)
        terminal.print_line(
            f"mm2: the reset is recorded, but then: {error}. It takes effect when a task next "
            f"acquires the partition, after a restart for example: "
            f"{operator.restart(self._order.flow.name)}",
            err=True,
        )
        return exits.FAILED

    def _say(self, name: str, lines: list[str]) -> None:
        self._said[name] = lines
        for each in lines:
            self._line(each)

    def _line(self, text: str) -> None:
        if not self._as_json:
            terminal.print_lines(text)


def _takes_effect(
    state: topic_reset.Running, file: pathlib.Path | str, order: topic_reset.Order
) -> str:
    from mm2.app import topic_reset

    operator = commands.Operator(file=str(file))
    flow = order.flow.name
    match state:
        case topic_reset.Running.PAUSED:
            what, line = f"{flow} is paused", operator.go_on(flow, None)
        case topic_reset.Running.TOPIC_PAUSED:
            what, line = f"topic {order.topic} is paused", operator.go_on(flow, order.topic)
        case topic_reset.Running.STOPPED:
            what, line = f"{flow} is stopped", operator.go_on(flow, None)
        case _:
            start = operator.run()
            return f"no process runs {flow}: the reset takes effect when the flow starts: {start}"
    return f"{what}: the reset takes effect when it is resumed: {line}"


def _restart(
    api: flow_api.FlowApi | None,
    by_record: topic_reset.Restart,
    partitions: list[ids.TopicPartition],
) -> str:
    """A process here restarts the tasks concerned alone. All tasks are restarted, and the
    connector, which lists the source's partitions again, if that process cannot reach the nodes
    that have the tasks, if no task has the partitions, or if there is no process here."""
    from mm2.app import flow_api, topic_reset

    if api is not None:
        with contextlib.suppress(flow_api.ApiError):
            restarted = topic_reset.restart_over_api(api)(partitions)
            if restarted:
                return restarted
    return by_record(partitions)


def _api(file: pathlib.Path | str, flow: str) -> flow_api.FlowApi | None:
    """The flow in a process of this machine that runs the file; None where none does."""
    from mm2.app import flow_api, run_socket

    try:
        answers = run_socket.ask(
            pathlib.Path(file),
            run_socket.ApiQuestion(),
            where=run_socket.folder(),
            timeout_s=_ASK_S,
        )
    except run_socket.RunSocketError:
        return None
    for each in answers.values():
        if each.code == exits.DONE and flow in each.detail["flows"]:
            return flow_api.FlowApi(
                flow,
                url=f"{each.detail['url']}{each.detail['flows'][flow]}",
                user=each.detail["user"],
                password=each.detail["password"],
            )
    return None


def _seen(
    file: pathlib.Path | str, flow: str
) -> Mapping[ids.TopicPartition, topic_reset.Seen] | None:
    from connect_runtime.base import ids
    from mm2.app import run_socket, topic_reset

    try:
        answers = run_socket.ask(
            pathlib.Path(file),
            run_socket.StatusQuestion(),
            where=run_socket.folder(),
            timeout_s=_ASK_S,
        )
    except run_socket.RunSocketError:
        return None
    found: dict[ids.TopicPartition, topic_reset.Seen] = {}
    for answer in answers.values():
        for report in answer.detail.get("flows", ()):
            if report["flow"] == flow:
                for each in report["partitions"]:
                    if each["state"]:
                        name = ids.TopicPartition(each["topic"], each["partition"])
                        found[name] = topic_reset.Seen(state=each["state"], reason=each["reason"])
    return found


def parse_position(start: str) -> str:
    """The value of --from, as `map_record.Request` has it. Raises `click.BadParameter`."""
    if re.fullmatch("[0-9]{1,15}", start) and int(start) <= own_values.LATEST_MS:
        return start
    offset = start.removeprefix(map_record.AT_OFFSET)
    if offset != start and re.fullmatch("[0-9]{1,19}", offset) and int(offset) <= _OFFSET_MAX:
        return start
    kind = kinds.start_position()
    try:
        return kind.parse((start,)).text
    except ValueError:
        raise click.BadParameter(
            f"{start!r}; allowed: {kind.allowed}, milliseconds since 1970, or offset:N",
            param_hint="--from",
        ) from None
