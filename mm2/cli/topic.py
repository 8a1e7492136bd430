"""`mm2 topic reset`: begins the replication of a topic again at another source position."""

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

from connect_runtime.base.errors import ConnectError
from connect_runtime.system.clock import SystemClock
from mm2 import exit_codes
from mm2.cli import options, terminal
from mm2.config import config_loader, value_types
from mm2.formats import offset_map_records
from mm2.operator_commands import OperatorCommands
from mm2.topics import naming

if TYPE_CHECKING:
    from connect_runtime.base.ids import TopicPartition
    from mm2.clusters.flow_rest_client import FlowRestClient
    from mm2.config.mm2_settings import Mm2Settings
    from mm2.repair.topic_reset import (
        FlowActivity,
        ObservedPartition,
        RestartTasks,
        TopicResetRequest,
    )


_ID_BYTES = 8
_OFFSET_MAX = 2**63 - 1
_REQUEST_TIMEOUT_S = 15.0
_COLLECT_TIMEOUT_S = 30.0
_DECISIONS_KEY, _ERROR_KEY = "decisions", "error"
_EXIT_CODES: Mapping[bool | None, int] = {
    True: exit_codes.DONE,
    False: exit_codes.FAILED,
    None: exit_codes.UNKNOWN,
}
"""By `ResetOutcome.replicating`."""


@click.group("topic")
def group() -> None:
    """Decide about one topic of a flow."""


@group.command("reset")
@click.argument("flow", metavar="FLOW")
@click.argument("topic", metavar="TOPIC")
@options.partitions_option("N", "Only this partition; repeatable.  [default: all of the topic]")
@click.option(
    "--from",
    "start",
    required=True,
    metavar="earliest|latest|TIMESTAMP|offset:N",
    help="Where replication begins again: a time such as 2026-01-31T08:00:00Z or milliseconds "
    "since 1970, or, with --partition, a source offset.",
)
@options.timeout_option(60.0, "How long to wait until the partitions replicate again.")
@options.config_option("Where the flow is configured.")
@options.json_option
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
    settings = config_loader.load(file, environment=os.environ)
    chosen = options.find_flow(settings, flow, hint="FLOW")
    position = parse_position(start)
    if position.startswith(offset_map_records.OFFSET_POSITION_PREFIX) and not partitions:
        raise click.UsageError(
            "each partition has offsets of its own: name one with --partition as well"
        )
    # Here and not above: wrong input is told before Kafka's library is loaded.
    from mm2.repair.topic_reset import InvalidResetError, TopicResetRequest

    order = TopicResetRequest(flow=chosen, topic=topic, partitions=partitions, position=position)
    try:
        return _ResetCommand(order, settings, as_json=as_json).run(timeout_s)
    except InvalidResetError as error:
        raise click.UsageError(str(error)) from error


class _ResetCommand:
    """One call of `mm2 topic reset`."""

    def __init__(self, order: TopicResetRequest, settings: Mm2Settings, *, as_json: bool) -> None:
        self._order = order
        self._settings = settings
        self._as_json = as_json
        self._clock = SystemClock()
        self._said: dict[str, Any] = {"flow": order.flow.name, "topic": order.topic}

    def run(self, timeout_s: float) -> int:
        """Returns the exit code. Raises `ConnectError` if the decision could not be recorded: later
        failures are reported beside what was recorded."""
        from mm2.cli import library_logs
        from mm2.clusters import cluster_clients, reachability_probe
        from mm2.clusters.flow_pair import FlowPair

        flow = self._order.flow
        reachability_probe.require_clusters(
            [
                cluster_clients.build_source_access(self._settings, flow),
                cluster_clients.build_target_access(self._settings, flow),
            ],
            timeout_s=timeout_s,
            tell=lambda line: terminal.print_line(line, err=True),
            clock=self._clock,
        )
        with (
            library_logs.redirect_library_logs() as log_file,
            FlowPair(self._settings, flow, purpose="reset", clock=self._clock) as both,
        ):
            client_id = f"mm2-{flow.name}-reset"
            ledger = cluster_clients.build_flow_ledger(
                self._settings, flow, client_id=client_id, clock=self._clock
            )
            try:
                code = self._run(both, ledger, timeout_s)
            except ConnectError as error:
                if _DECISIONS_KEY not in self._said:
                    raise
                code = self._failed(error)
            finally:
                ledger.close(1.0)
            log_file.keep = _ERROR_KEY in self._said
        if self._as_json:
            click.echo(json.dumps(self._said, indent=2))
        return code

    def _run(self, both: Any, ledger: Any, timeout_s: float) -> int:
        from mm2.clusters import connect_group
        from mm2.clusters.connect_group import ConnectGroupSnapshot
        from mm2.repair import flow_offset_translation, topic_reset
        from mm2.repair.topic_reset import FlowActivity, ResetWaiter

        order, flow = self._order, self._order.flow
        decisions = topic_reset.record_decisions(
            order,
            both.source.admin,
            ledger,
            now=self._clock,
            new_id=lambda: secrets.token_hex(_ID_BYTES),
        )
        self._say(_DECISIONS_KEY, [each.describe() for each in decisions])
        self._line(f"recorded in {naming.offset_map_topic(flow.source)} of cluster {flow.target}")

        props = flow_offset_translation.load_flow_plan(self._settings, flow).worker_props

        def look() -> ConnectGroupSnapshot:
            return connect_group.read_connect_group(
                both.target, props, clock=self._clock, timeout_s=_COLLECT_TIMEOUT_S
            )

        group, api = look(), _find_rest_client(self._settings.file, flow.name)
        state = topic_reset.find_flow_activity(group, topic=order.topic, here=api is not None)
        self._said["running"] = state.value
        partitions = [each.partition for each in decisions]
        if state is not FlowActivity.NO and state is not FlowActivity.STOPPED:
            by_record = topic_reset.restart_by_config_record(
                both.target, props, now=self._clock, hosts=group.hosts or ()
            )
            self._say("restarted", [_restart_tasks(api, by_record, partitions)])
        if state is not FlowActivity.YES:
            self._say("outcome", [_describe_effect(state, self._settings.file, order)])
            return exit_codes.DONE
        awaiting = ResetWaiter(
            decisions=decisions,
            ledger=ledger,
            look=lambda: _collect_partitions(self._settings.file, flow.name),
            why_not=lambda: topic_reset.describe_failed_task(look()),
            nodes=lambda partitions: topic_reset.find_nodes(look(), partitions),
            now=self._clock,
            pause=threading.Event().wait,
        )
        outcomes = awaiting.outcomes(timeout_s)
        self._say("outcome", [each.describe() for each in outcomes])
        return exit_codes.worst_of([_EXIT_CODES[each.replicating] for each in outcomes])

    def _failed(self, error: ConnectError) -> int:
        """The decision is recorded; what came after that failed."""
        operator = OperatorCommands(file=str(self._settings.file))
        self._said[_ERROR_KEY] = str(error)
        terminal.print_line(
            f"mm2: the reset is recorded, but then: {error}. It takes effect when a task next "
            f"acquires the partition, after a restart for example: "
            f"{operator.restart(self._order.flow.name)}",
            err=True,
        )
        return exit_codes.FAILED

    def _say(self, name: str, lines: list[str]) -> None:
        self._said[name] = lines
        for each in lines:
            self._line(each)

    def _line(self, text: str) -> None:
        if not self._as_json:
            terminal.print_lines(text)


def _describe_effect(
    state: FlowActivity, file: pathlib.Path | str, order: TopicResetRequest
) -> str:
    from mm2.repair.topic_reset import FlowActivity

    operator = OperatorCommands(file=str(file))
    flow = order.flow.name
    match state:
        case FlowActivity.PAUSED:
            what, line = f"{flow} is paused", operator.go_on(flow, None)
        case FlowActivity.TOPIC_PAUSED:
            what, line = f"topic {order.topic} is paused", operator.go_on(flow, order.topic)
        case FlowActivity.STOPPED:
            what, line = f"{flow} is stopped", operator.go_on(flow, None)
        case _:
            start = operator.run()
            return f"no process runs {flow}: the reset takes effect when the flow starts: {start}"
    return f"{what}: the reset takes effect when it is resumed: {line}"


def _restart_tasks(
    api: FlowRestClient | None,
    by_record: RestartTasks,
    partitions: list[TopicPartition],
) -> str:
    """A process here restarts the tasks concerned alone. All tasks are restarted, and the
    connector, which lists the source's partitions again, if that process cannot reach the nodes
    that have the tasks, if no task has the partitions, or if there is no process here."""
    from mm2.clusters.flow_rest_client import FlowRestError
    from mm2.repair import topic_reset

    if api is not None:
        with contextlib.suppress(FlowRestError):
            restarted = topic_reset.restart_over_rest(api)(partitions)
            if restarted:
                return restarted
    return by_record(partitions)


def _find_rest_client(file: pathlib.Path | str, flow: str) -> FlowRestClient | None:
    """The flow in a process of this machine that runs the file; None where none does."""
    from mm2.clusters.flow_rest_client import FlowRestClient
    from mm2.status import process_socket
    from mm2.status.process_socket import ProcessSocketError, RestApiRequest

    try:
        answers = process_socket.query_processes(
            pathlib.Path(file),
            RestApiRequest(),
            where=process_socket.find_socket_folder(),
            timeout_s=_REQUEST_TIMEOUT_S,
        )
    except ProcessSocketError:
        return None
    for each in answers.values():
        if each.code == exit_codes.DONE and flow in each.detail["flows"]:
            return FlowRestClient(
                flow,
                url=f"{each.detail['url']}{each.detail['flows'][flow]}",
                user=each.detail["user"],
                password=each.detail["password"],
            )
    return None


def _collect_partitions(
    file: pathlib.Path | str, flow: str
) -> Mapping[TopicPartition, ObservedPartition] | None:
    from connect_runtime.base.ids import TopicPartition
    from mm2.repair.topic_reset import ObservedPartition
    from mm2.status import process_socket
    from mm2.status.process_socket import ProcessSocketError, StatusRequest

    try:
        answers = process_socket.query_processes(
            pathlib.Path(file),
            StatusRequest(),
            where=process_socket.find_socket_folder(),
            timeout_s=_REQUEST_TIMEOUT_S,
        )
    except ProcessSocketError:
        return None
    found: dict[TopicPartition, ObservedPartition] = {}
    for answer in answers.values():
        for report in answer.detail.get("flows", ()):
            if report["flow"] == flow:
                for each in report["partitions"]:
                    if each["state"]:
                        name = TopicPartition(each["topic"], each["partition"])
                        found[name] = ObservedPartition(state=each["state"], reason=each["reason"])
    return found


def parse_position(start: str) -> str:
    """The value of --from, as `NewEraRequest` has it. Raises `click.BadParameter`."""
    if re.fullmatch("[0-9]{1,15}", start) and int(start) <= value_types.MAX_TIMESTAMP_MS:
        return start
    offset = start.removeprefix(offset_map_records.OFFSET_POSITION_PREFIX)
    if offset != start and re.fullmatch("[0-9]{1,19}", offset) and int(offset) <= _OFFSET_MAX:
        return start
    kind = value_types.start_position()
    try:
        return kind.parse((start,)).text
    except ValueError:
        raise click.BadParameter(
            f"{start!r}; allowed: {kind.allowed}, milliseconds since 1970, or offset:N",
            param_hint="--from",
        ) from None
