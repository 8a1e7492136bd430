"""The SparkContext in the driver's JVM, and the engine's calls to it.

A process has at most one SparkContext at a time: pyspark keeps its gateway and its context in class
attributes, which only this module sets and clears.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import py4j.protocol  # type: ignore[import-untyped] # it ships no types
import pyspark
from pyspark import accumulators, java_gateway, serializers

from mm2.copier.spark import executor_dependencies, executor_job, spark_errors
from mm2.copier.spark.executor_job import SparkCopyParameters
from mm2.copier.spark.jvm import DriverJvm
from mm2.copier.spark.settings import (
    SparkSettings,
    count_executor_slots,
    count_local_slots,
    explain_insecure_traffic,
)
from mm2.copier.spark.spark_errors import SparkJobError, SparkStartError, SparkUnavailableError

# py4j logs stack traces when the JVM exits; the engine detects and reports that itself.
logging.getLogger("py4j").setLevel(logging.CRITICAL)


def _ignore_accumulator_error(*_: object) -> None:
    """Ignore errors of pyspark's accumulator server. mm2 does not use this server, which would
    print a stack trace for each error."""


class _RejectingSerializer(serializers.CPickleSerializer):
    """Rejects updates of Spark accumulators, which mm2 does not use. pyspark would unpickle them,
    so any executor could run code in the driver."""

    def _read_with_length(self, stream: Any) -> Any:
        raise pickle.UnpicklingError("accumulators are not used")


accumulators.pickleSer = _RejectingSerializer()

for _server in (accumulators.AccumulatorTCPServer, accumulators.AccumulatorUnixServer):
    _server.handle_error = _ignore_accumulator_error  # type: ignore[assignment, method-assign]

_DIAGNOSTIC_COMMAND_BEAN = "com.sun.management:type=DiagnosticCommand"
_JVM_CALL_ERRORS = (py4j.protocol.Py4JError, ConnectionError, EOFError)
"""Errors that a call to the JVM can raise: the JVM threw an exception or has exited."""


class SparkDriver:
    """A running SparkContext. Created by `create_spark_context`. Methods are thread-safe and raise
    `SparkUnavailableError` if the JVM does not respond."""

    def __init__(self, jvm: DriverJvm, context: Any, *, local_slots: int | None) -> None:
        self.jvm = jvm
        self._context = context
        self._local_slots = local_slots

    def is_alive(self) -> bool:
        return self.jvm.is_alive()

    def has_stopped_itself(self) -> bool:
        """Return True if Spark shut down on its own, for example because the master removed the
        application."""
        with _translate_spark_errors("checking whether Spark is running"):
            return bool(self._get_java_context().sc().isStopped())

    def run_job(
        self, ticket: SparkCopyParameters, *, group: str, description: str
    ) -> list[tuple[str, str]]:
        """Run one copy process as a Spark job with one task, and block until the job ends.

        Use a separate thread for each job, because Spark's job groups are set per thread. Raises
        `SparkJobError` if the job fails, and `SparkUnavailableError` if the JVM does not respond.
        """
        try:
            self._context.setJobGroup(group, description, interruptOnCancel=True)
            rows = self._create_empty_rdd().mapPartitions(
                partial(executor_job.run_copy_in_spark_task, ticket)
            )
            # The driver must not unpickle what an executor returns, because that can run code.
            rows._jrdd_deserializer = serializers.NoOpSerializer()  # noqa: SLF001
            result = [executor_job.decode_outcome(row) for row in rows.collect()]
        except py4j.protocol.Py4JJavaError as error:
            with _translate_spark_errors("reading the error of a job"):
                message = str(error.java_exception.getMessage())
            raise SparkJobError(spark_errors.explain_job_failure(message)) from error
        except ValueError as error:
            raise SparkJobError(f"the executor returned an invalid outcome: {error}") from error
        except _JVM_CALL_ERRORS as error:
            raise SparkUnavailableError(
                f"running {description}: {_describe_exception(error)}"
            ) from error
        return result

    def cancel_job(self, group: str) -> None:
        with _translate_spark_errors("cancelling a job"):
            self._context.cancelJobGroup(group)

    def find_stage_id(self, group: str) -> int | None:
        """Return the stage id of a job group's only job; None until Spark has scheduled the job."""
        with _translate_spark_errors("reading the stage of a job"):
            tracker = self._get_java_context().statusTracker()
            for job_id in tracker.getJobIdsForGroup(group):
                info = tracker.getJobInfo(job_id)
                for stage in info.stageIds() if info is not None else ():
                    return int(stage)
        return None

    def count_active_tasks(self, stage: int) -> int:
        with _translate_spark_errors("reading the state of a task"):
            info = self._get_java_context().statusTracker().getStageInfo(stage)
            return 0 if info is None else int(info.numActiveTasks())

    def count_task_slots(self) -> int:
        """Count the task slots of the local master, or of the running executors of a cluster."""
        if self._local_slots is not None:
            return self._local_slots
        with _translate_spark_errors("counting task slots"):
            return count_executor_slots(self._context)

    def ui_address(self) -> str | None:
        """URL of Spark's UI and status API; None if they are disabled."""
        with _translate_spark_errors("reading the address of Spark's UI"):
            address: str | None = self._context.uiWebUrl
            return address

    def write_class_archive(self, to: Path) -> None:
        """Dump the classes loaded by the JVM to a class-data archive (`ClassArchive`). The JVM is
        suspended while it writes the archive. A JVM without class-data sharing writes no file."""
        with _translate_spark_errors("writing the class-data archive"):
            gateway = self._context._gateway  # noqa: SLF001
            jvm_view = gateway.jvm
            server = jvm_view.java.lang.management.ManagementFactory.getPlatformMBeanServer()
            name = jvm_view.javax.management.ObjectName(_DIAGNOSTIC_COMMAND_BEAN)
            command = _make_java_array(gateway, jvm_view.java.lang.String, "dynamic_dump", str(to))
            signature = _make_java_array(gateway, jvm_view.java.lang.String, "[Ljava.lang.String;")
            # Invoked through the interface: the implementing class is not accessible.
            methods = jvm_view.java.lang.Class.forName("javax.management.MBeanServer").getMethods()
            invoke = next(each for each in methods if each.getName() == "invoke")
            command_arguments = _make_java_array(gateway, jvm_view.java.lang.Object, command)
            invoke_arguments = _make_java_array(
                gateway, jvm_view.java.lang.Object, name, "vmCds", command_arguments, signature
            )
            with contextlib.suppress(py4j.protocol.Py4JJavaError):  # not every JVM has this command
                invoke.invoke(server, invoke_arguments)

    def stop_context(self) -> None:
        """Stop the SparkContext gracefully. This call may block, so the caller should kill the JVM
        after a timeout."""
        if self.is_alive():
            with contextlib.suppress(*_JVM_CALL_ERRORS):
                self._get_java_context().stop()
        self._context._jsc = None  # noqa: SLF001 - stopped above; pyspark would warn about a dead JVM
        self._context.stop()

    def end_jvm(self, timeout_s: float, *, keep_logs: bool) -> None:
        """End the JVM and clear pyspark's references to it."""
        self.jvm.stop_and_remove_files(timeout_s, keep_logs=keep_logs)
        _clear_pyspark_state(self.jvm)

    def _create_empty_rdd(self) -> Any:
        """Create an RDD with one empty partition. pyspark's `parallelize` is not used, because it
        leaks the file or socket through which it sends rows."""
        nothing = self._context._jvm.java.util.ArrayList()  # noqa: SLF001
        return pyspark.RDD(self._get_java_context().parallelize(nothing, 1), self._context)

    def _get_java_context(self) -> Any:
        return self._context._jsc  # noqa: SLF001 - pyspark's wrappers make seven JVM calls per value


def create_spark_context(jvm: DriverJvm, settings: SparkSettings) -> SparkDriver:
    """Create the SparkContext. Raises `SparkStartError`, but does not end the JVM."""
    try:
        gateway = _open_gateway(jvm)
        effective = dict(pyspark.SparkConf(_jvm=gateway.jvm).getAll())
        weakness = explain_insecure_traffic(effective)
        if weakness is not None and not settings.allow_insecure:
            raise SparkStartError(
                f"starting Spark at {settings.master}: {weakness}. Other users could connect to "
                "the driver and, on a cluster, read the tasks and the tokens in them. Correct this "
                "setting, or set `allow.insecure.spark: true` in the `spark` section to accept "
                "the risk"
            )
        context = pyspark.SparkContext(
            gateway=gateway,
            environment=_build_copy_environment(settings),
            pyFiles=_list_py_files(jvm, settings),
        )
    except _JVM_CALL_ERRORS as error:
        output = f"{jvm.read_output_tail()}\n{_describe_exception(error)}"
        _clear_pyspark_state(jvm)
        raise SparkStartError(
            spark_errors.explain_start_failure(output, master=settings.master)
        ) from error
    context.pythonExec = settings.python
    local_slots = count_local_slots(settings.master) if settings.is_local else None
    return SparkDriver(jvm, context, local_slots=local_slots)


def _build_copy_environment(settings: SparkSettings) -> dict[str, str]:
    """Build the environment of the copy processes. In local mode they import the packages of this
    installation."""
    if not settings.is_local:
        return {}
    inherited = os.environ.get("PYTHONPATH")
    paths = [
        *map(str, executor_dependencies.find_package_roots()),
        *([inherited] if inherited else []),
    ]
    return {"PYTHONPATH": os.pathsep.join(paths)}


def _list_py_files(machine: DriverJvm, settings: SparkSettings) -> list[str]:
    shipped = [str(path) for path in settings.py_files]
    if settings.is_local:
        return shipped
    return [
        str(executor_dependencies.write_dependency_archive(machine.home / "mm2-copy.zip")),
        *shipped,
    ]


def _open_gateway(machine: DriverJvm) -> Any:
    """Connect pyspark to the running JVM. pyspark reads the port and secret from environment
    variables."""
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
def _translate_spark_errors(what: str) -> Iterator[None]:
    try:
        yield
    except _JVM_CALL_ERRORS as error:
        raise SparkUnavailableError(f"{what}: {_describe_exception(error)}") from error


def _describe_exception(error: Exception) -> str:
    """Return the message of an exception, or its type if the message cannot be read. The message of
    a Java exception is read through the gateway, which may be closed."""
    try:
        return str(error)
    except _JVM_CALL_ERRORS:
        return type(error).__name__


def _clear_pyspark_state(machine: DriverJvm) -> None:
    # pyspark cannot release a gateway; a second context would use the dead JVM.
    gateway = pyspark.SparkContext._gateway  # noqa: SLF001
    if gateway is not None:
        with contextlib.suppress(*_JVM_CALL_ERRORS):
            gateway.shutdown()
    pyspark.SparkContext._gateway = None  # noqa: SLF001
    pyspark.SparkContext._jvm = None  # noqa: SLF001
    sys.path[:] = [entry for entry in sys.path if not entry.startswith(str(machine.home))]
