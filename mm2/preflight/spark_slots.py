"""Counts the slots of the copy engine (copy processes that can run at the same time), and reports
a finding if the flows need more slots.

The slots of local Spark are counted without starting it. On a Spark cluster, an application is
started in the same way as by `mm2 run`.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from connect_runtime.base import plurals
from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.errors import ConnectError
from connect_runtime.system import java_installation
from connect_runtime.system.java_installation import JavaMissingError
from connect_runtime.system.system_clock import wait_until
from mm2 import suggested_commands
from mm2.config import copy_engine_config
from mm2.config.copy_engine_config import EngineSettings
from mm2.config.mm2_settings import Mm2Settings
from mm2.copier import shared_copy_engine
from mm2.copier.copy_engine import EngineState
from mm2.copier.spark.settings import count_local_slots
from mm2.preflight import check_report
from mm2.preflight.check_report import CheckArea, CheckFinding, CheckSeverity


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotSnapshot:
    """Available and required slots of the copy engine (copy processes that can run at the same
    time)."""

    master: str
    failure: str = ""
    """Reason why the engine does not start; "" if it starts."""
    unreachable: str = ""
    """Address of the Spark master if it does not accept connections; "" otherwise."""
    slots: int | None
    """Maximum number of copy processes that can run at the same time; None if unlimited."""
    needed: int
    """Number of copy processes that this node runs if it is the only node."""


def check_slots(seen: SlotSnapshot) -> Iterator[CheckFinding]:
    """Report a problem with the copy engine's slots (copy processes that can run at the same time).
    Yields at most one finding."""
    if seen.unreachable:
        yield _build_finding(
            "spark-master",
            f"{seen.unreachable} does not accept connections: {seen.failure}",
            effect="nothing is replicated",
            fix="correct master in the spark section, or start the master at this address",
            command=suggested_commands.build_port_test_command(seen.unreachable),
        )
    elif seen.failure:
        yield _build_finding(
            "spark-start",
            seen.failure,
            effect="nothing is replicated",
            fix="fix the cause named in Spark's error; see Spark's log for details",
        )
    elif seen.slots is not None and seen.slots < seen.needed:
        none = seen.slots == 0
        yield _build_finding(
            "spark-no-slots" if none else "spark-few-slots",
            f"{seen.master} has {plurals.format_count(seen.slots, 'slot')}, the flows' "
            "tasks "
            f"need {seen.needed}",
            effect="nothing is replicated until other applications release cores"
            if none
            else f"{plurals.format_count(seen.needed - seen.slots, 'task', 'wait')} until others "
            "end",
            fix="lower tasks.max, or give Spark more cores: more workers, spark.cores.max, or "
            "local[N]",
            severity=CheckSeverity.FAILED if none else CheckSeverity.WARNING,
        )


def _build_finding(
    code: str,
    text: str,
    *,
    effect: str,
    fix: str,
    severity: CheckSeverity = CheckSeverity.FAILED,
    command: str = "",
) -> CheckFinding:
    return CheckFinding(
        subject=check_report.ENGINE_SUBJECT,
        area=CheckArea.SPARK,
        severity=severity,
        code=code,
        text=text,
        effect=effect,
        fix=fix,
        command=command,
    )


ENGINE_START_TIMEOUT_S = 90.0
"""Maximum time for Spark to start, or to fail because no master accepts the application."""
_EXECUTOR_TIMEOUT_S = 30.0
"""Maximum time for executors to register."""
_ENGINE_CLOSE_TIMEOUT_S = 5.0
MAX_COLLECT_S = ENGINE_START_TIMEOUT_S + _EXECUTOR_TIMEOUT_S + _ENGINE_CLOSE_TIMEOUT_S
"""Maximum duration of counting the copy engine's slots, excluding the connection test of the Spark
master."""
_ENDED_STATES = (EngineState.FAILED, EngineState.STOPPED)


def collect_slot_snapshot(settings: Mm2Settings, *, clock: Clock, timeout_s: float) -> SlotSnapshot:
    """Count the copy engine's slots (copy processes that can run at the same time). `timeout_s`
    limits the connection test of a Spark master."""
    chosen = shared_copy_engine.choose_engine_settings(settings)
    wanted = shared_copy_engine.compute_max_copy_processes(settings)

    def build_snapshot(
        count: int | None = None, *, failure: str = "", unreachable: str = ""
    ) -> SlotSnapshot:
        return SlotSnapshot(
            master=chosen.display_name,
            failure=failure,
            unreachable=unreachable,
            slots=count,
            needed=wanted,
        )

    if chosen.engine == copy_engine_config.INLINE:
        return build_snapshot()
    try:
        java_installation.find_java()
    except JavaMissingError as error:
        return build_snapshot(failure=str(error))
    if chosen.is_local:
        return build_snapshot(count_local_slots(chosen.master))
    if chosen.master.startswith(shared_copy_engine.SPARK_STANDALONE_PREFIX):
        address, refused = _find_reachable_master(chosen.master, timeout_s)
        if refused:
            return build_snapshot(failure=refused, unreachable=address)
    return _start_spark_and_count_slots(chosen, wanted, build_snapshot, clock=clock)


def _find_reachable_master(master: str, timeout_s: float) -> tuple[str, str]:
    """Try to connect to each master of a master URL such as `spark://a:1,b:1`. Returns the address
    of the first master that accepts the connection and "", or the last address and its error."""
    address = refused = ""
    for address in master.removeprefix(shared_copy_engine.SPARK_STANDALONE_PREFIX).split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout_s).close()
        except (OSError, ValueError) as error:
            refused = str(error)
        else:
            return address, ""
    return address, refused


def _start_spark_and_count_slots(
    chosen: EngineSettings,
    wanted: int,
    seen: Callable[..., SlotSnapshot],
    *,
    clock: Clock,
) -> SlotSnapshot:
    try:
        plane = shared_copy_engine.acquire(chosen, clock)
    except ConnectError as error:
        return seen(failure=str(error))
    spark = plane.engine
    try:
        settled = (EngineState.READY, *_ENDED_STATES)
        wait_until(lambda: spark.state in settled, timeout_s=ENGINE_START_TIMEOUT_S)
        if spark.state is not EngineState.READY:
            return seen(
                failure=spark.failure
                or f"Spark has not started within {ENGINE_START_TIMEOUT_S:g} s"
            )
        wait_until(
            lambda: spark.get_slot_usage().total >= wanted or spark.state in _ENDED_STATES,
            timeout_s=_EXECUTOR_TIMEOUT_S,
        )
        return seen(spark.get_slot_usage().total, failure=spark.failure or "")
    finally:
        plane.release_reference()
        shared_copy_engine.close(_ENGINE_CLOSE_TIMEOUT_S)
