"""The SparkContext in the driver's JVM, and the calls of the engine into it.

One per process at a time: pyspark keeps its gateway and its context in class attributes, which
are set and cleared here only.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import py4j.protocol  # type: ignore[import-untyped] # it ships no types
import pyspark
from pyspark import accumulators, java_gateway

from mm2.copier.spark import executor_dependencies, executor_job, spark_errors
from mm2.copier.spark.executor_job import CopyTicket
from mm2.copier.spark.jvm import DriverJvm
from mm2.copier.spark.settings import (
    SparkSettings,
    count_executor_slots,
    count_local_slots,
    explain_insecure_traffic,
)
from mm2.copier.spark.spark_errors import SparkJobError, SparkStartError, SparkUnavailableError

# Its loggers print stack traces whenever the JVM goes, which we notice and report ourselves.
logging.getLogger("py4j").setLevel(logging.CRITICAL)


def _ignore_error(*_: object) -> None:
    """So does the server of its accumulators, which we have no use for."""


for _server in (accumulators.AccumulatorTCPServer, accumulators.AccumulatorUnixServer):
    _server.handle_error = _ignore_error  # type: ignore[assignment, method-assign]

_DIAGNOSTIC_COMMAND_BEAN = "com.sun.management:type=DiagnosticCommand"
_JVM_CALL_ERRORS = (py4j.protocol.Py4JError, ConnectionError, EOFError)
"""What a call into the JVM raises, whether it answers with an exception or is not there."""


class SparkDriver:
    """Made by `connect`. Methods may be called from any thread and raise failures.GoneError."""

    def __init__(self, machine: DriverJvm, context: Any, *, local_slots: int | None) -> None:
        self.jvm = machine
        self._context = context
        self._local_slots = local_slots

    def alive(self) -> bool:
        return self.jvm.alive()

    def stopped_itself(self) -> bool:
        """Whether Spark has given up on its own, as when the master removes the application."""
        with _translate_errors("asking whether Spark runs"):
            return bool(self._jsc().sc().isStopped())

    def run(self, ticket: CopyTicket, *, group: str, description: str) -> list[tuple[str, str]]:
        """Run one copy as one job of one task, and wait for its end, however long that takes.

        The calling thread should run this and nothing else: job groups belong to threads. Raises
        failures.JobFailedError too.
        """
        try:
            self._context.setJobGroup(group, description, interruptOnCancel=True)
            rows = self._one_empty_partition().mapPartitions(
                partial(executor_job.run_partition, ticket)
            )
            result: list[tuple[str, str]] = rows.collect()
        except py4j.protocol.Py4JJavaError as error:
            with _translate_errors("asking why a job failed"):
                message = str(error.java_exception.getMessage())
            raise SparkJobError(spark_errors.explain_job_failure(message)) from error
        except _JVM_CALL_ERRORS as error:
            raise SparkUnavailableError(
                f"running {description}: {_describe_exception(error)}"
            ) from error
        return result

    def cancel(self, group: str) -> None:
        with _translate_errors("cancelling a job"):
            self._context.cancelJobGroup(group)

    def stage_of(self, group: str) -> int | None:
        """The one stage of a group's one job, None while Spark does not know it yet."""
        with _translate_errors("looking for a job's stage"):
            tracker = self._jsc().statusTracker()
            for job_id in tracker.getJobIdsForGroup(group):
                info = tracker.getJobInfo(job_id)
                for stage in info.stageIds() if info is not None else ():
                    return int(stage)
        return None

    def active_tasks(self, stage: int) -> int:
        with _translate_errors("asking whether a task runs"):
            info = self._jsc().statusTracker().getStageInfo(stage)
            return 0 if info is None else int(info.numActiveTasks())

    def total_slots(self) -> int:
        if self._local_slots is not None:
            return self._local_slots
        with _translate_errors("counting slots"):
            return count_executor_slots(self._context)

    def ui_address(self) -> str | None:
        """Where Spark's UI and status API listen, if they do."""
        with _translate_errors("asking for the UI's address"):
            address: str | None = self._context.uiWebUrl
            return address

    def write_classes(self, to: Path) -> None:
        """What the JVM has loaded so far, as an archive (`class_archive`); it stands still
        meanwhile. Where it cannot, there is no such file."""
        with _translate_errors("writing the JVM's classes"):
            gateway = self._context._gateway  # noqa: SLF001
            jvm_view = gateway.jvm
            server = jvm_view.java.lang.management.ManagementFactory.getPlatformMBeanServer()
            name = jvm_view.javax.management.ObjectName(_DIAGNOSTIC_COMMAND_BEAN)
            words = _make_java_array(gateway, jvm_view.java.lang.String, "dynamic_dump", str(to))
            kinds = _make_java_array(gateway, jvm_view.java.lang.String, "[Ljava.lang.String;")
            # By the interface: the class behind it is not for others to call.
            methods = jvm_view.java.lang.Class.forName("javax.management.MBeanServer").getMethods()
            invoke = next(each for each in methods if each.getName() == "invoke")
            inner = _make_java_array(gateway, jvm_view.java.lang.Object, words)
            told = _make_java_array(gateway, jvm_view.java.lang.Object, name, "vmCds", inner, kinds)
            with contextlib.suppress(py4j.protocol.Py4JJavaError):  # another JVM may lack it
                invoke.invoke(server, told)

    def stop_context(self) -> None:
        """Stop Spark in order. It may take long: whoever calls it kills the JVM when it does."""
        if self.alive():
            with contextlib.suppress(*_JVM_CALL_ERRORS):
                self._jsc().stop()
        self._context._jsc = None  # noqa: SLF001 - done; pyspark would warn about a dead JVM
        self._context.stop()

    def release(self, timeout_s: float, *, keep_logs: bool) -> None:
        """End the JVM and forget it, in pyspark too."""
        self.jvm.end(timeout_s, keep_logs=keep_logs)
        _clear_pyspark_state(self.jvm)

    def _one_empty_partition(self) -> Any:
        """`parallelize` of pyspark sends rows through a file, or through a socket that it leaks."""
        nothing = self._context._jvm.java.util.ArrayList()  # noqa: SLF001
        return pyspark.RDD(self._jsc().parallelize(nothing, 1), self._context)

    def _jsc(self) -> Any:
        return self._context._jsc  # noqa: SLF001 - pyspark's wrappers ask seven times for one figure


def connect(machine: DriverJvm, settings: SparkSettings) -> SparkDriver:
    """Make the SparkContext. Raises failures.StartError; the JVM lives on then."""
    try:
        gateway = _open_gateway(machine)
        effective = dict(pyspark.SparkConf(_jvm=gateway.jvm).getAll())
        open_door = explain_insecure_traffic(effective)
        if open_door is not None and not settings.allow_insecure:
            raise SparkStartError(
                f"starting Spark at {settings.master}: {open_door}. Other users could reach the "
                "driver, and on a cluster read tasks and their tokens. Correct that setting, or "
                "set `allow.insecure.spark: true` in the `spark` section to accept the risk"
            )
        context = pyspark.SparkContext(
            gateway=gateway,
            environment=_build_copy_environment(settings),
            pyFiles=_list_py_files(machine, settings),
        )
    except _JVM_CALL_ERRORS as error:
        told = f"{machine.output_tail()}\n{_describe_exception(error)}"
        _clear_pyspark_state(machine)
        raise SparkStartError(
            spark_errors.explain_start_failure(told, master=settings.master)
        ) from error
    context.pythonExec = settings.python
    local_slots = count_local_slots(settings.master) if settings.local else None
    return SparkDriver(machine, context, local_slots=local_slots)


def _build_copy_environment(settings: SparkSettings) -> dict[str, str]:
    """The copies' own: in local mode they import our packages from where we did."""
    if not settings.local:
        return {}
    inherited = os.environ.get("PYTHONPATH")
    paths = [
        *map(str, executor_dependencies.find_package_roots()),
        *([inherited] if inherited else []),
    ]
    return {"PYTHONPATH": os.pathsep.join(paths)}


def _list_py_files(machine: DriverJvm, settings: SparkSettings) -> list[str]:
    shipped = [str(path) for path in settings.py_files]
    if settings.local:
        return shipped
    return [str(executor_dependencies.write_archive(machine.home / "mm2-copy.zip")), *shipped]


def _open_gateway(machine: DriverJvm) -> Any:
    """pyspark's gateway to a JVM that is there already: it takes port and secret from variables."""
    given = {
        "PYSPARK_GATEWAY_PORT": str(machine.port),
        "PYSPARK_GATEWAY_SECRET": machine.secret,
    }
    os.environ.update(given)
    try:
        return java_gateway.launch_gateway()  # type: ignore[no-untyped-call] # pyspark's own
    finally:
        for name in given:
            del os.environ[name]


def _make_java_array(gateway: Any, kind: Any, *items: object) -> Any:
    made = gateway.new_array(kind, len(items))
    for place, each in enumerate(items):
        made[place] = each
    return made


@contextlib.contextmanager
def _translate_errors(what: str) -> Iterator[None]:
    try:
        yield
    except _JVM_CALL_ERRORS as error:
        raise SparkUnavailableError(f"{what}: {_describe_exception(error)}") from error


def _describe_exception(error: Exception) -> str:
    """An exception of Java's is asked for its text over the gateway, which may be gone by then."""
    try:
        return str(error)
    except _JVM_CALL_ERRORS:
        return type(error).__name__


def _clear_pyspark_state(machine: DriverJvm) -> None:
    # pyspark offers no way to let a gateway go; a second context would talk to the dead JVM.
    gateway = pyspark.SparkContext._gateway  # noqa: SLF001
    if gateway is not None:
        with contextlib.suppress(*_JVM_CALL_ERRORS):
            gateway.shutdown()
    pyspark.SparkContext._gateway = None  # noqa: SLF001
    pyspark.SparkContext._jvm = None  # noqa: SLF001
    sys.path[:] = [entry for entry in sys.path if not entry.startswith(str(machine.home))]
