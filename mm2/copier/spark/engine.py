"""Engine that runs each copy as a Spark job of one long task, in one SparkContext per process.

One thread starts the driver; one thread per copy waits for its job; one thread watches which
waiting task has got a slot, which was lost with its executor, and whether the JVM is alive.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from connect_runtime.base.timing import Clock, Deadline
from connect_runtime.system.threads import OwnedThread, ThreadDied, ThreadGroup
from mm2.copier.engine import CopyJob, CopyProgress, CopyState, EngineState, SlotUsage
from mm2.copier.spark import executor_job, jvm, spark_errors
from mm2.copier.spark.executor_job import CopyTicket
from mm2.copier.spark.jvm import DriverJvm
from mm2.copier.spark.settings import SparkSettings
from mm2.copier.spark.spark_errors import SparkJobError, SparkStartError, SparkUnavailableError

if TYPE_CHECKING:
    from mm2.copier.spark.driver import SparkDriver


class SparkCopy:
    """The handle of one copy, and what its threads need to know about its job."""

    def __init__(self, copy: CopyJob, *, group: str) -> None:
        self.copy = copy
        self.group = group
        self.progress = CopyProgress()
        self.cancelled = threading.Event()
        self.stage: int | None = None
        self.idle_looks = 0

    @property
    def state(self) -> CopyState:
        return self.progress.state

    @property
    def error(self) -> str | None:
        return self.progress.error

    def cancel(self) -> None:
        """The engine's watch cancels the job, again and again until it has ended: a job that is
        just being submitted cannot be cancelled yet."""
        self.cancelled.set()

    def wait(self, timeout_s: float) -> bool:
        return self.progress.wait(timeout_s)

    def run(self, spark: SparkDriver) -> None:
        """The body of the driver thread: returns when the job has ended, and says how."""
        if self.cancelled.is_set():
            self.progress.ended(spark_errors.CANCELLED)
            return
        ticket = CopyTicket(address=self.copy.address, token=self.copy.token, entry=self.copy.entry)
        try:
            rows = spark.run(ticket, group=self.group, description=self.copy.description)
        except SparkJobError as error:
            self._failed(str(error))
        except SparkUnavailableError:
            self._failed(spark_errors.JVM_DIED)
        else:
            self.progress.ended(read_outcome(rows))

    def _failed(self, reason: str) -> None:
        """However Spark ended a copy that was cancelled: it was cancelled."""
        self.progress.ended(spark_errors.CANCELLED if self.cancelled.is_set() else reason)

    def look(self, spark: SparkDriver) -> None:
        """Ask Spark how the job stands. A task that ran and now waits again was lost with its
        executor: it would only end as a second attempt, and not before a slot is free."""
        if self.stage is None:
            self.stage = spark.stage_of(self.group)
            if self.stage is None:
                return
        if spark.active_tasks(self.stage):
            self.idle_looks = 0
            self.progress.running()
        elif self.state is CopyState.RUNNING:
            self.idle_looks += 1
            if self.idle_looks >= 2 and self.progress.ended(spark_errors.TASK_LOST):
                self.cancelled.set()


def read_outcome(rows: list[tuple[str, str]]) -> str | None:
    """What the task said about its end; None when the copy ended in order."""
    match rows:
        case [(executor_job.OUTCOME_ENDED, _)]:
            return None
        case [(executor_job.OUTCOME_SECOND_ATTEMPT, text)]:
            return f"{spark_errors.TASK_LOST} ({text} did nothing)"
        case [(_, text)]:
            return text
    return f"the task returned {len(rows)} rows instead of one"


WAITING_POLL_INTERVAL_S = 0.2
"""How often Spark is asked while a copy waits for its slot, at first."""
RUNNING_POLL_INTERVAL_S = 1.0
CLASS_ARCHIVE_DELAY_S = 30.0
"""By then copies run, and what they need of the JVM is loaded."""
WARM_UP_TIMEOUT_S = 30.0
_MAX_FAST_POLLS = 50
_KILL_TIMEOUT_S = 1.0
_CANCEL_POLL_S = 0.5

_log = logging.getLogger(__name__)


class SparkEngine:
    """Implements `CopyEngine`. Make one per process at a time.

    Once it has run for `archive_after_s`, the JVM's classes are written down (`class_archive`).
    """

    def __init__(
        self,
        settings: SparkSettings,
        *,
        now: Clock,
        archive_after_s: float = CLASS_ARCHIVE_DELAY_S,
    ) -> None:
        self._settings = settings
        self._archive_after_s = archive_after_s
        self._now = now
        self._state = EngineState.STARTING
        self._failure: str | None = None
        self._settled = threading.Event()
        self._stopping = threading.Event()
        self._news = threading.Event()
        self._lock = threading.Lock()
        self._spawning = threading.Lock()
        self._jvm: DriverJvm | None = None
        self._driver: SparkDriver | None = None
        self._live: dict[str, SparkCopy] = {}
        self._numbers = itertools.count(1)
        self._total = 0
        self._threads = ThreadGroup(on_unasked_end=self._note_unasked_end)
        self._started_s: float | None = None
        self._warm = False

    @property
    def state(self) -> EngineState:
        return self._state

    @property
    def warm(self) -> bool:
        return self._warm and self._state is EngineState.READY

    @property
    def failure(self) -> str | None:
        """With the place of Spark's log, which is kept then."""
        if self._failure is None or self._jvm is None:
            return self._failure
        return f"{self._failure}; Spark's log is kept in {self._jvm.log.parent} until the next run"

    @property
    def log_path(self) -> Path | None:
        """Spark's own log, once its JVM was started."""
        return None if self._jvm is None else self._jvm.log

    @property
    def jvm_pid(self) -> int | None:
        return None if self._jvm is None else self._jvm.process.pid

    @property
    def ui_address(self) -> str | None:
        """Spark's UI and status API, None while it is off or not up yet."""
        return None if self._driver is None else self._driver.ui_address()

    def open(self) -> None:
        assert self._started_s is None, "an engine is opened once"
        self._started_s = self._now.now_s()
        self._spawn("spark-start", self._start_driver)

    def start(self, job: CopyJob) -> SparkCopy:
        assert self._started_s is not None, "open comes first"
        copy = SparkCopy(job, group=f"mm2-copy-{next(self._numbers)}")
        with self._lock:
            final = self._failure if self._state is not EngineState.STOPPED else "stopped"
            if final is None:
                self._live[copy.group] = copy
        if final is not None:
            copy.progress.ended(final)
            return copy
        self._spawn(f"spark {job.description}", lambda stop: self._run_copy(copy, stop))
        self._news.set()
        return copy

    def slots(self) -> SlotUsage:
        states = [copy.state for copy in self._copies()]
        return SlotUsage(
            total=self._total,
            used=states.count(CopyState.RUNNING),
            waiting=states.count(CopyState.WAITING_FOR_SLOT),
        )

    def stop(self, deadline_s: float) -> None:
        """Copies that still run are killed: they were asked over their channels before."""
        end = Deadline.after(deadline_s, now_s=self._now.now_s())
        with self._lock:
            if self._stopping.is_set():
                return
            self._stopping.set()
            if self._state is not EngineState.FAILED:
                self._state = EngineState.STOPPED
        self._settled.set()
        self._news.set()
        for copy in self._copies():
            copy.cancel()
        if self._driver is not None:
            self._wind_up(self._driver, end)
        failed = self._state is EngineState.FAILED
        if self._jvm is not None:
            if self._driver is None:
                self._jvm.kill()
                self._jvm.end(_KILL_TIMEOUT_S, keep_logs=failed)
            else:
                self._driver.release(end.left_s(self._now.now_s()), keep_logs=failed)
        for copy in self._copies():
            copy.progress.ended(spark_errors.CANCELLED)
        self._threads.stop_all(_KILL_TIMEOUT_S)

    def _copies(self) -> list[SparkCopy]:
        with self._lock:
            return list(self._live.values())

    def _spawn(self, name: str, body: Callable[[threading.Event], None]) -> OwnedThread:
        with self._spawning:
            return self._threads.start(name, body)

    # The thread that starts the driver.

    def _start_driver(self, stop: threading.Event) -> None:
        stop.set()  # it ends by itself
        try:
            self._jvm = jvm.launch_jvm(self._settings)
            # Here and not above: who needs no Spark need not wait for pyspark, and who does waits
            # for the JVM meanwhile.
            from mm2.copier.spark import driver

            jvm.wait_for_gateway(self._jvm, self._settings)
            connected = driver.connect(self._jvm, self._settings)
            self._total = connected.total_slots()
        except (SparkStartError, SparkUnavailableError) as error:
            self._fail(str(error))
            return
        with self._lock:
            self._driver = None if self._stopping.is_set() else connected
            if self._driver is not None:
                self._state = EngineState.READY
        if self._driver is None:
            connected.stop_context()
            connected.release(_KILL_TIMEOUT_S, keep_logs=False)
            return
        took_s = self._now.now_s() - (self._started_s or 0.0)
        _log.info("Spark is up at %s after %.1f s", self._settings.master, took_s)
        self._settled.set()
        self._spawn("spark-watch", self._watch)
        if self._jvm.archive is not None and self._jvm.archive.wanted:
            self._spawn("spark-archive", self._write_archive)
        self._warm_up()

    def _warm_up(self) -> None:
        """The first copy of a driver takes seconds longer than others: let it be one that nobody
        waits for, unless some wait already. Slots of a cluster are left to others."""
        if self._settings.local and not self._copies():
            empty = CopyJob(
                flow="warm-up", index=0, address="", token=b"", entry=executor_job.WARM_UP_ENTRY
            )
            self.start(empty).wait(WARM_UP_TIMEOUT_S)
        self._warm = True

    def _fail(self, reason: str) -> None:
        """The end of the engine: every copy ends, and the worker decides what that means."""
        with self._lock:
            if self._state in (EngineState.FAILED, EngineState.STOPPED):
                return
            self._state = EngineState.FAILED
            self._failure = reason
        _log.error("Spark at %s: %s", self._settings.master, self.failure)
        if self._jvm is not None:
            self._jvm.kill()
        for copy in self._copies():
            copy.progress.ended(reason)
        self._settled.set()

    def _note_unasked_end(self, end: ThreadDied) -> None:
        self._fail(f"the thread {end.name} has failed: {end.error!r}")

    # One thread per copy.

    def _run_copy(self, copy: SparkCopy, stop: threading.Event) -> None:
        try:
            while not self._settled.wait(_CANCEL_POLL_S):
                if copy.cancelled.is_set():
                    break
            if self._driver is None or self._state is not EngineState.READY:
                copy.progress.ended(self._failure or spark_errors.CANCELLED)
            else:
                copy.run(self._driver)
        finally:
            copy.progress.ended(self._failure or spark_errors.CANCELLED)
            with self._lock:
                self._live.pop(copy.group, None)
            stop.set()

    # The thread that watches.

    def _watch(self, stop: threading.Event) -> None:
        assert self._driver is not None
        hurry = 0
        while not stop.is_set() and not self._stopping.is_set():
            waiting = any(copy.state is CopyState.WAITING_FOR_SLOT for copy in self._copies())
            hurry = hurry + 1 if waiting else 0
            rushing = waiting and hurry < _MAX_FAST_POLLS
            self._news.wait(WAITING_POLL_INTERVAL_S if rushing else RUNNING_POLL_INTERVAL_S)
            self._news.clear()
            if self._stopping.is_set():
                break
            reason = self._look(self._driver)
            if reason is not None:
                self._fail(reason)
                break
        stop.set()

    def _look(self, spark: SparkDriver) -> str | None:
        """One round of asking Spark; returns why the engine is at its end, if it is."""
        if not spark.alive():
            return spark_errors.JVM_DIED
        try:
            if spark.stopped_itself():
                return spark_errors.explain_start_failure(
                    spark.jvm.output_tail(), master=self._settings.master
                )
            for copy in self._copies():
                if copy.state is CopyState.WAITING_FOR_SLOT or not self._settings.local:
                    copy.look(spark)
            self._cancel(spark)
            self._total = spark.total_slots()
        except SparkUnavailableError as error:
            if not spark.alive():
                return spark_errors.JVM_DIED
            _log.warning("Spark: %s", error)
        return None

    # The thread that lets the next ones start sooner.

    def _write_archive(self, stop: threading.Event) -> None:
        """Once for each Java and Spark on a machine. It may fail: nothing rests on it."""
        self._stopping.wait(self._archive_after_s)
        stop.set()
        if self._driver is None or self._jvm is None or self._stopping.is_set():
            return
        archive, written = self._jvm.archive, self._jvm.home / "classes.jsa"
        assert archive is not None, "else nobody asked"
        try:
            self._driver.write_classes(written)
            archive.keep(written)
        except (SparkUnavailableError, OSError) as error:
            _log.debug("no archive of Spark's classes: %s", error)

    def _cancel(self, spark: SparkDriver) -> None:
        for copy in self._copies():
            if copy.cancelled.is_set():
                spark.cancel(copy.group)

    def _wind_up(self, spark: SparkDriver, end: Deadline) -> None:
        """End Spark in order, or kill it when that takes until shortly before the deadline.

        On a thread of its own: a JVM that is frozen answers no call, and a call has no deadline.
        """

        def body(stop: threading.Event) -> None:
            stop.set()
            with contextlib.suppress(SparkUnavailableError):
                self._cancel(spark)
            # Their threads end first: pyspark cannot stop a context that is in use.
            for copy in self._copies():
                copy.wait(end.left_s(self._now.now_s()) / 2)
            spark.stop_context()

        thread = self._spawn("spark-stop", body)
        if not thread.join(max(0.0, end.left_s(self._now.now_s()) - _KILL_TIMEOUT_S)):
            _log.warning("Spark did not stop in time and is killed")
            spark.jvm.kill()
            thread.join(_KILL_TIMEOUT_S)
