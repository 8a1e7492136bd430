"""`mm2 topic reset`: restarts the replication of a topic at another source position."""

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
from connect_runtime.system.system_clock import SystemClock
from mm2 import exit_codes
from mm2.cli import options, terminal_output
from mm2.config import config_loader, config_value_types, flow_connector_configs
from mm2.formats import offset_map_records
from mm2.suggested_commands import OperatorCommands
from mm2.topics import replication_policy

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
"""Exit code for each value of `ResetOutcome.replicating`."""


@click.group("topic")
def topic_group() -> None:
    """Repair the replication of a topic."""


@topic_group.command(
    "reset", short_help="Restart replication of a topic at another source position."
)
@click.argument("flow", metavar="FLOW")
@click.argument("topic", metavar="TOPIC")
@options.partitions_option(
    "N", ("Only this partition; repeatable.  [default: all partitions of the topic]")
)
@click.option(
    "--from",
    "start",
    required=True,
    metavar="earliest|latest|TIMESTAMP|offset:N",
    help="Where replication restarts. TIMESTAMP: a time such as 2026-01-31T08:00:00Z, or "
    "milliseconds since 1970. offset:N: a source offset, only with --partition.",
)
@options.timeout_option(60.0, "How long to wait until the partitions are replicated again.")
@options.config_option("Configuration file that defines the flow.")
@options.json_option
def reset_command(
    *,
    flow: str,
    topic: str,
    partitions: tuple[int, ...],
    start: str,
    timeout_s: float,
    file: pathlib.Path,
    as_json: bool,
) -> int:
    """Restart the replication of TOPIC at another position of the source.

    The reset resolves halted partitions, for example after the source topic was recreated. TOPIC is
    the name on the source. Existing records of the mirror topic are kept; new records are appended.

    The reset is recorded on the target cluster. The flow can stay running: its tasks that replicate
    the topic are restarted on every node, and the command waits until the partitions are being
    replicated again. If a node is not reachable from this machine, the command waits only until
    the partitions have been acquired. If the flow is not running, the reset takes effect when the
    flow starts.

    \b
    Examples:
      mm2 topic reset 'east->west' orders --from earliest
      mm2 topic reset 'east->west' orders --from latest
      mm2 topic reset 'east->west' orders --partition 3 --from 2026-01-31T08:00:00Z
      mm2 topic reset 'east->west' orders --partition 3 --from offset:1204
    """
    settings = config_loader.load_config_file(file, environment=os.environ)
    chosen = options.find_flow(settings, flow, hint="FLOW")
    position = parse_reset_position(start)
    if position.startswith(offset_map_records.OFFSET_POSITION_PREFIX) and not partitions:
        raise click.UsageError("offset:N applies to a single partition: add --partition")
    # Imported here so that invalid input is reported before Kafka's client library is loaded.
    from mm2.repair.topic_reset import InvalidResetError, TopicResetRequest

    order = TopicResetRequest(flow=chosen, topic=topic, partitions=partitions, position=position)
    try:
        return _TopicResetCommand(order, settings, as_json=as_json).run_reset(timeout_s)
    except InvalidResetError as error:
        raise click.UsageError(str(error)) from error


class _TopicResetCommand:
    """A single invocation of `mm2 topic reset`."""

    def __init__(self, order: TopicResetRequest, settings: Mm2Settings, *, as_json: bool) -> None:
        self._order = order
        self._settings = settings
        self._as_json = as_json
        self._clock = SystemClock()
        self._result: dict[str, Any] = {"flow": order.flow.name, "topic": order.topic}

    def run_reset(self, timeout_s: float) -> int:
        """Record the reset, restart the affected tasks, wait until the partitions are being
        replicated again, and return the exit code.

        Raises `ConnectError` if the reset could not be recorded. Later failures are reported
        together with the reset that was recorded.
        """
        from mm2.cli import library_log_redirection
        from mm2.clusters import flow_kafka_clients, reachability_probe
        from mm2.clusters.flow_cluster_pair import FlowPair

        flow = self._order.flow
        reachability_probe.require_reachable_clusters(
            [
                flow_kafka_clients.build_source_admin_connection_settings(self._settings, flow),
                flow_kafka_clients.build_target_admin_connection_settings(self._settings, flow),
            ],
            timeout_s=timeout_s,
            print_line=lambda line: terminal_output.print_line(line, err=True),
            clock=self._clock,
        )
        with (
            library_log_redirection.redirect_library_logs() as log_file,
            FlowPair(self._settings, flow, purpose="reset", clock=self._clock) as both,
        ):
            client_id = f"mm2-{flow.name}-reset"
            store = flow_kafka_clients.create_flow_state_store(
                self._settings, flow, client_id=client_id, clock=self._clock
            )
            try:
                code = self._reset_topic(both, store, timeout_s)
            except ConnectError as error:
                if _DECISIONS_KEY not in self._result:
                    raise
                code = self._report_failure(error)
            finally:
                store.close(1.0)
            log_file.keep = _ERROR_KEY in self._result
        if self._as_json:
            click.echo(json.dumps(self._result, indent=2))
        return code

    def _reset_topic(self, both: Any, store: Any, timeout_s: float) -> int:
        from mm2.clusters import connect_group_state
        from mm2.clusters.connect_group_state import ConnectGroupSnapshot
        from mm2.repair import topic_reset
        from mm2.repair.topic_reset import FlowActivity, ResetWaiter

        order, flow = self._order, self._order.flow
        decisions = topic_reset.record_reset_decisions(
            order,
            both.source.admin,
            store,
            now=self._clock,
            new_id=lambda: secrets.token_hex(_ID_BYTES),
        )
        self._report_result_lines(_DECISIONS_KEY, [each.describe() for each in decisions])
        self._print_text(
            f"recorded in {replication_policy.format_offset_map_topic(flow.source)} of cluster "
            f"{flow.target}"
        )

        props = flow_connector_configs.plan_flow(
            self._settings, flow, environment=os.environ
        ).worker_props

        def read_flow_connect_group() -> ConnectGroupSnapshot:
            return connect_group_state.read_connect_group(
                both.target, props, clock=self._clock, timeout_s=_COLLECT_TIMEOUT_S
            )

        group, api = read_flow_connect_group(), _find_rest_client(self._settings.file, flow.name)
        state = topic_reset.find_flow_activity(group, topic=order.topic, here=api is not None)
        self._result["running"] = state.value
        partitions = [each.partition for each in decisions]
        if state is not FlowActivity.NO and state is not FlowActivity.STOPPED:
            by_record = topic_reset.create_task_restarter_via_config_topic(
                both.target, props, now=self._clock, hosts=group.hosts or ()
            )
            self._report_result_lines("restarted", [_restart_tasks(api, by_record, partitions)])
        if state is not FlowActivity.YES:
            self._report_result_lines(
                "outcome", [_describe_reset_effect(state, self._settings.file, order)]
            )
            return exit_codes.DONE
        awaiting = ResetWaiter(
            decisions=decisions,
            store=store,
            collect_partitions=lambda: _collect_partitions_from_processes(
                self._settings.file, flow.name
            ),
            explain_inactivity=lambda: topic_reset.describe_failed_task(read_flow_connect_group()),
            find_nodes=lambda partitions: topic_reset.find_task_nodes(
                read_flow_connect_group(), partitions
            ),
            clock=self._clock,
            sleep=threading.Event().wait,
        )
        outcomes = awaiting.wait_for_outcomes(timeout_s)
        self._report_result_lines("outcome", [each.describe() for each in outcomes])
        return exit_codes.combine_exit_codes([_EXIT_CODES[each.replicating] for each in outcomes])

    def _report_failure(self, error: ConnectError) -> int:
        """Report a failure that occurred after the reset was recorded. Return the exit code."""
        operator = OperatorCommands(file=str(self._settings.file))
        self._result[_ERROR_KEY] = str(error)
        terminal_output.print_line(
            f"mm2: the reset is recorded, but a later step failed: {error}. The reset takes effect "
            f"when a task next acquires the partition, for example after a restart: "
            f"{operator.build_restart_command(self._order.flow.name)}",
            err=True,
        )
        return exit_codes.FAILED

    def _report_result_lines(self, name: str, lines: list[str]) -> None:
        self._result[name] = lines
        for each in lines:
            self._print_text(each)

    def _print_text(self, text: str) -> None:
        if not self._as_json:
            terminal_output.print_lines(text)


def _describe_reset_effect(
    state: FlowActivity, file: pathlib.Path | str, order: TopicResetRequest
) -> str:
    from mm2.repair.topic_reset import FlowActivity

    operator = OperatorCommands(file=str(file))
    flow = order.flow.name
    match state:
        case FlowActivity.PAUSED:
            what, line = f"{flow} is paused", operator.build_resume_command(flow, None)
        case FlowActivity.TOPIC_PAUSED:
            what, line = (
                f"topic {order.topic} is paused",
                operator.build_resume_command(flow, order.topic),
            )
        case FlowActivity.STOPPED:
            what, line = f"{flow} is stopped", operator.build_resume_command(flow, None)
        case _:
            start = operator.build_mm2_run_command()
            return f"no process runs {flow}: the reset takes effect when the flow starts: {start}"
    return f"{what}: the reset takes effect when it is resumed: {line}"


def _restart_tasks(
    api: FlowRestClient | None,
    by_record: RestartTasks,
    partitions: list[TopicPartition],
) -> str:
    """Restart the tasks that replicate the partitions, through the REST API of the process on this
    machine.

    Falls back to a record in the config topic if no local process is running, if it cannot reach
    the tasks' nodes, or if the partitions are not assigned to any task. The record restarts the
    connector and all its tasks; the restarted connector lists the source's partitions again.
    """
    from mm2.clusters.flow_rest_client import FlowRestError
    from mm2.repair import topic_reset

    if api is not None:
        with contextlib.suppress(FlowRestError):
            restarted = topic_reset.create_rest_task_restarter(api)(partitions)
            if restarted:
                return restarted
    return by_record(partitions)


def _find_rest_client(file: pathlib.Path | str, flow: str) -> FlowRestClient | None:
    """Return a REST client for the flow in the local process that runs the file, or None if no
    process runs the flow."""
    from mm2.clusters.flow_rest_client import FlowRestClient
    from mm2.status import process_socket
    from mm2.status.process_socket import ProcessSocketError, RestApiRequest

    try:
        answers = process_socket.query_processes(
            pathlib.Path(file),
            RestApiRequest(),
            folder=process_socket.find_socket_directory(),
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


def _collect_partitions_from_processes(
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
            folder=process_socket.find_socket_directory(),
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


def parse_reset_position(start: str) -> str:
    """Convert the value of `--from` to the form that `NewEraRequest` stores. Raises
    `click.BadParameter` if the value is not a position."""
    if re.fullmatch("[0-9]{1,15}", start) and int(start) <= config_value_types.MAX_TIMESTAMP_MS:
        return start
    offset = start.removeprefix(offset_map_records.OFFSET_POSITION_PREFIX)
    if offset != start and re.fullmatch("[0-9]{1,19}", offset) and int(offset) <= _OFFSET_MAX:
        return start
    kind = config_value_types.start_position_type()
    try:
        return kind.parse((start,)).config_text
    except ValueError:
        raise click.BadParameter(
            f"{start!r}; allowed: {kind.allowed}, milliseconds since 1970, or offset:N",
            param_hint="--from",
        ) from None
