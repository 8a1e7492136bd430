"""Engine that runs each copy process as a Spark job with one long task, in one SparkContext per
process.

One thread starts Spark's driver, and one thread per copy process waits for its Spark job. Another
thread polls which waiting tasks were assigned a slot, which tasks were lost with their executor,
and whether the JVM is alive.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.system.supervised_threads import (
    StoppableThread,
    ThreadGroup,
    UnexpectedThreadEnd,
)
from mm2.copier.copy_engine import CopyJob, CopyState, CopyStateTracker, EngineState, SlotUsage
from mm2.copier.spark import executor_job, jvm, spark_errors
from mm2.copier.spark.executor_job import SparkCopyParameters
from mm2.copier.spark.jvm import DriverJvm
from mm2.copier.spark.settings import SparkSettings
from mm2.copier.spark.spark_errors import SparkJobError, SparkStartError, SparkUnavailableError

if TYPE_CHECKING:
    from mm2.copier.spark.driver import SparkDriver


class SparkCopy:
    """Handle to one copy process, with the state of its Spark job."""

    def __init__(self, copy: CopyJob, *, group: str) -> None:
        self.copy = copy
        self.group = group
        self.progress = CopyStateTracker()
        self.cancelled = threading.Event()
        self.stage: int | None = None
        self.idle_polls = 0

    @property
    def state(self) -> CopyState:
        return self.progress.state

    @property
    def error(self) -> str | None:
        return self.progress.error

    def cancel(self) -> None:
        """Request cancellation. The polling thread repeats the request until the job has ended,
        because a job that is being submitted cannot be canceled yet."""
        self.cancelled.set()

    def wait(self, timeout_s: float) -> bool:
        return self.progress.wait(timeout_s)

    def run(self, spark: SparkDriver) -> None:
        """Run the Spark job of the copy process, and record how the job ended. This is the body of
        the copy process's thread."""
        if self.cancelled.is_set():
            self.progress.set_ended(spark_errors.CANCELLED)
            return
        ticket = SparkCopyParameters(
            address=self.copy.address, token=self.copy.token, entry=self.copy.entry
        )
        try:
            rows = spark.run_job(ticket, group=self.group, description=self.copy.description)
        except SparkJobError as error:
            self._record_failure(str(error))
        except SparkUnavailableError:
            self._record_failure(spark_errors.JVM_DIED)
        else:
            self.progress.set_ended(read_task_error(rows))

    def _record_failure(self, reason: str) -> None:
        """Record a failure. After `cancel`, every failure counts as a cancellation."""
        self.progress.set_ended(spark_errors.CANCELLED if self.cancelled.is_set() else reason)

    def poll_job_state(self, spark: SparkDriver) -> None:
        """Poll the state of the Spark job.

        A task that was running and is now waiting was lost with its executor, and Spark will retry
        it. A retry cannot resume the copy process, so the copy process counts as ended without
        waiting for the retry.
        """
        if self.stage is None:
            self.stage = spark.find_stage_id(self.group)
            if self.stage is None:
                return
        if spark.count_active_tasks(self.stage):
            self.idle_polls = 0
            self.progress.set_running()
        elif self.state is CopyState.RUNNING:
            self.idle_polls += 1
            if self.idle_polls >= 2 and self.progress.set_ended(spark_errors.TASK_LOST):
                self.cancelled.set()


def read_task_error(rows: list[tuple[str, str]]) -> str | None:
    """Read the error that the task reported; None if the copy process ended normally."""
    match rows:
        case [(executor_job.OUTCOME_ENDED, _)]:
            return None
        case [(executor_job.OUTCOME_SECOND_ATTEMPT, text)]:
            return f"{spark_errors.TASK_LOST} ({text} did nothing)"
        case [(_, text)]:
            return text
    return f"the task returned {len(rows)} rows instead of one"


WAITING_POLL_INTERVAL_S = 0.2
"""Initial poll interval in seconds while a copy process is waiting for a slot."""
RUNNING_POLL_INTERVAL_S = 1.0
CLASS_ARCHIVE_DELAY_S = 30.0
"""Delay in seconds before the class archive is written. By then copy processes are running, and the
JVM has loaded the classes that it needs."""
WARM_UP_TIMEOUT_S = 30.0
_MAX_FAST_POLLS = 50
_KILL_TIMEOUT_S = 1.0
_CANCEL_POLL_S = 0.5

_log = logging.getLogger(__name__)


class SparkEngine:
    """Copy engine on Spark. One instance per process at a time.

    After `archive_after_s`, the JVM's loaded classes are written to a class-data archive
    (`ClassArchive`).
    """

    def __init__(
        self,
        settings: SparkSettings,
        *,
        clock: Clock,
        archive_after_s: float = CLASS_ARCHIVE_DELAY_S,
    ) -> None:
        self._settings = settings
        self._archive_after_s = archive_after_s
        self._now = clock
        self._state = EngineState.STARTING
        self._failure: str | None = None
        self._start_finished = threading.Event()
        self._stopping = threading.Event()
        self._wake_up = threading.Event()
        self._lock = threading.Lock()
        self._spawning = threading.Lock()
        self._jvm: DriverJvm | None = None
        self._driver: SparkDriver | None = None
        self._copies_by_group: dict[str, SparkCopy] = {}
        self._numbers = itertools.count(1)
        self._total = 0
        self._threads = ThreadGroup(on_unexpected_end=self._handle_thread_death)
        self._started_s: float | None = None
        self._warm = False

    @property
    def state(self) -> EngineState:
        return self._state

    @property
    def is_warm(self) -> bool:
        return self._warm and self._state is EngineState.READY

    @property
    def failure(self) -> str | None:
        """Reason why the engine FAILED, with the path of Spark's log; None otherwise."""
        if self._failure is None or self._jvm is None:
            return self._failure
        return f"{self._failure}; Spark's log is kept in {self._jvm.log.parent} until the next run"

    @property
    def log_path(self) -> Path | None:
        """Path of Spark's log file; None before the JVM was started."""
        return None if self._jvm is None else self._jvm.log

    @property
    def jvm_pid(self) -> int | None:
        return None if self._jvm is None else self._jvm.process.pid

    @property
    def ui_address(self) -> str | None:
        """URL of Spark's UI and status API; None if they are disabled or not yet started."""
        return None if self._driver is None else self._driver.ui_address()

    def open(self) -> None:
        assert self._started_s is None, "an engine can be opened only once"
        self._started_s = self._now.now_s()
        self._start_thread("spark-start", self._start_driver)

    def start(self, job: CopyJob) -> SparkCopy:
        assert self._started_s is not None, "call open first"
        copy = SparkCopy(job, group=f"mm2-copy-{next(self._numbers)}")
        with self._lock:
            final = self._failure if self._state is not EngineState.STOPPED else "stopped"
            if final is None:
                self._copies_by_group[copy.group] = copy
        if final is not None:
            copy.progress.set_ended(final)
            return copy
        self._start_thread(f"spark {job.description}", lambda stop: self._run_copy(copy, stop))
        self._wake_up.set()
        return copy

    def get_slot_usage(self) -> SlotUsage:
        states = [copy.state for copy in self._list_copies()]
        return SlotUsage(
            total=self._total,
            used=states.count(CopyState.RUNNING),
            waiting=states.count(CopyState.WAITING_FOR_SLOT),
        )

    def stop(self, deadline_s: float) -> None:
        """Kill the copy processes that are still running, and stop Spark. Before this call, the
        driver must have requested a graceful stop over the control channels."""
        end = Deadline.after(deadline_s, now_s=self._now.now_s())
        with self._lock:
            if self._stopping.is_set():
                return
            self._stopping.set()
            if self._state is not EngineState.FAILED:
                self._state = EngineState.STOPPED
        self._start_finished.set()
        self._wake_up.set()
        for copy in self._list_copies():
            copy.cancel()
        if self._driver is not None:
            self._stop_spark(self._driver, end)
        failed = self._state is EngineState.FAILED
        if self._jvm is not None:
            if self._driver is None:
                self._jvm.kill()
                self._jvm.stop_and_remove_files(_KILL_TIMEOUT_S, keep_logs=failed)
            else:
                self._driver.end_jvm(end.remaining_s(self._now.now_s()), keep_logs=failed)
        for copy in self._list_copies():
            copy.progress.set_ended(spark_errors.CANCELLED)
        self._threads.stop_all(_KILL_TIMEOUT_S)

    def _list_copies(self) -> list[SparkCopy]:
        with self._lock:
            return list(self._copies_by_group.values())

    def _start_thread(self, name: str, body: Callable[[threading.Event], None]) -> StoppableThread:
        with self._spawning:
            return self._threads.start(name, body)

    # Thread that starts the driver

    def _start_driver(self, stop: threading.Event) -> None:
        stop.set()  # this thread is ending on its own
        try:
            self._jvm = jvm.launch_jvm(self._settings)
            # Imported late, in parallel with the start of the JVM: importing pyspark is slow, and
            # processes without Spark do not need it.
            from mm2.copier.spark import driver

            jvm.wait_for_gateway(self._jvm, self._settings)
            connected = driver.create_spark_context(self._jvm, self._settings)
            self._total = connected.count_task_slots()
        except (SparkStartError, SparkUnavailableError) as error:
            self._fail_engine(str(error))
            return
        with self._lock:
            self._driver = None if self._stopping.is_set() else connected
            if self._driver is not None:
                self._state = EngineState.READY
        if self._driver is None:
            connected.stop_context()
            connected.end_jvm(_KILL_TIMEOUT_S, keep_logs=False)
            return
        took_s = self._now.now_s() - (self._started_s or 0.0)
        _log.info("Spark is running at %s after %.1f s", self._settings.master, took_s)
        self._start_finished.set()
        self._start_thread("spark-watch", self._poll_until_stopped)
        if self._jvm.archive is not None and self._jvm.archive.needs_creation:
            self._start_thread("spark-archive", self._write_archive)
        self._run_warm_up_copy()

    def _run_warm_up_copy(self) -> None:
        """Run an empty copy process, unless copy processes are already waiting, so that the first
        real copy process starts seconds faster.

        Runs only in local mode, because the slots of a Spark cluster are shared with other
        applications.
        """
        if self._settings.is_local and not self._list_copies():
            empty = CopyJob(
                flow="warm-up", index=0, address="", token=b"", entry=executor_job.WARM_UP_ENTRY
            )
            self.start(empty).wait(WARM_UP_TIMEOUT_S)
        self._warm = True

    def _fail_engine(self, reason: str) -> None:
        """Set the engine state to FAILED, kill the JVM, and mark every copy process as ended."""
        with self._lock:
            if self._state in (EngineState.FAILED, EngineState.STOPPED):
                return
            self._state = EngineState.FAILED
            self._failure = reason
        _log.error("Spark at %s: %s", self._settings.master, self.failure)
        if self._jvm is not None:
            self._jvm.kill()
        for copy in self._list_copies():
            copy.progress.set_ended(reason)
        self._start_finished.set()

    def _handle_thread_death(self, end: UnexpectedThreadEnd) -> None:
        self._fail_engine(f"thread {end.name} failed: {end.error!r}")

    # One thread per copy process

    def _run_copy(self, copy: SparkCopy, stop: threading.Event) -> None:
        try:
            while not self._start_finished.wait(_CANCEL_POLL_S):
                if copy.cancelled.is_set():
                    break
            if self._driver is None or self._state is not EngineState.READY:
                copy.progress.set_ended(self._failure or spark_errors.CANCELLED)
            else:
                copy.run(self._driver)
        finally:
            copy.progress.set_ended(self._failure or spark_errors.CANCELLED)
            with self._lock:
                self._copies_by_group.pop(copy.group, None)
            stop.set()

    # Polling thread

    def _poll_until_stopped(self, stop: threading.Event) -> None:
        assert self._driver is not None
        fast_polls = 0
        while not stop.is_set() and not self._stopping.is_set():
            waiting = any(copy.state is CopyState.WAITING_FOR_SLOT for copy in self._list_copies())
            fast_polls = fast_polls + 1 if waiting else 0
            polls_fast = waiting and fast_polls < _MAX_FAST_POLLS
            self._wake_up.wait(WAITING_POLL_INTERVAL_S if polls_fast else RUNNING_POLL_INTERVAL_S)
            self._wake_up.clear()
            if self._stopping.is_set():
                break
            reason = self._poll_spark_for_failure(self._driver)
            if reason is not None:
                self._fail_engine(reason)
                break
        stop.set()

    def _poll_spark_for_failure(self, spark: SparkDriver) -> str | None:
        """Poll Spark once. Return the reason why the engine has failed, or None."""
        if not spark.is_alive():
            return spark_errors.JVM_DIED
        try:
            if spark.has_stopped_itself():
                return spark_errors.explain_start_failure(
                    spark.jvm.read_output_tail(), master=self._settings.master
                )
            for copy in self._list_copies():
                if copy.state is CopyState.WAITING_FOR_SLOT or not self._settings.is_local:
                    copy.poll_job_state(spark)
            self._cancel_jobs(spark)
            self._total = spark.count_task_slots()
        except SparkUnavailableError as error:
            if not spark.is_alive():
                return spark_errors.JVM_DIED
            _log.warning("Spark: %s", error)
        return None

    # Thread that writes the class-data archive, which speeds up later starts

    def _write_archive(self, stop: threading.Event) -> None:
        """Write the class-data archive once per Java and Spark version on a machine. Failures are
        logged and otherwise ignored."""
        self._stopping.wait(self._archive_after_s)
        stop.set()
        if self._driver is None or self._jvm is None or self._stopping.is_set():
            return
        archive, written = self._jvm.archive, self._jvm.home / "classes.jsa"
        assert archive is not None, "the thread is started only for a local JVM"
        try:
            self._driver.write_class_archive(written)
            archive.store_archive(written)
        except (SparkUnavailableError, OSError) as error:
            _log.debug("cannot write Spark's class-data archive: %s", error)

    def _cancel_jobs(self, spark: SparkDriver) -> None:
        for copy in self._list_copies():
            if copy.cancelled.is_set():
                spark.cancel_job(copy.group)

    def _stop_spark(self, spark: SparkDriver, end: Deadline) -> None:
        """Stop Spark gracefully, or kill it shortly before the deadline.

        Runs on a separate thread, because calls into a frozen JVM block without a timeout.
        """

        def stop_spark_gracefully(stop: threading.Event) -> None:
            stop.set()
            with contextlib.suppress(SparkUnavailableError):
                self._cancel_jobs(spark)
            # First wait for the copy processes: pyspark cannot stop a context that is in use.
            for copy in self._list_copies():
                copy.wait(end.remaining_s(self._now.now_s()) / 2)
            spark.stop_context()

        thread = self._start_thread("spark-stop", stop_spark_gracefully)
        if not thread.join(max(0.0, end.remaining_s(self._now.now_s()) - _KILL_TIMEOUT_S)):
            _log.warning("Spark did not stop in time and is being killed")
            spark.jvm.kill()
            thread.join(_KILL_TIMEOUT_S)
