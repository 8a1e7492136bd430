"""Copies as long Spark tasks: one job of one task each, in one SparkContext per process.

Three kinds of threads: one starts the driver, one per copy waits for its job, one watches: which
waiting task has got a slot, which was lost with its executor, whether the JVM is still alive.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from connect_runtime.base import clock, deadline
from connect_runtime.system import threads
from mm2.pipeline import engine
from mm2.pipeline.spark import copies, failures, jvm
from mm2.pipeline.spark import job as spark_job
from mm2.pipeline.spark import settings as spark_settings

if TYPE_CHECKING:
    from mm2.pipeline.spark import driver

WATCH_WAITING_S = 0.2
"""How often Spark is asked while a copy waits for its slot, at first."""
WATCH_RUNNING_S = 1.0
ARCHIVE_AFTER_S = 30.0
"""By then copies run, and what they need of the JVM is loaded."""
WARM_UP_S = 30.0
_HURRY_ROUNDS = 50
_KILL_S = 1.0
_CANCEL_POLL_S = 0.5

_log = logging.getLogger(__name__)


class SparkEngine:
    """Implements `engine.CopyEngine`. Make one per process at a time.

    Once it has run for `archive_after_s`, the JVM's classes are written down (`class_archive`).
    """

    def __init__(
        self,
        settings: spark_settings.SparkSettings,
        *,
        now: clock.Clock,
        archive_after_s: float = ARCHIVE_AFTER_S,
    ) -> None:
        self._settings = settings
        self._archive_after_s = archive_after_s
        self._now = now
        self._state = engine.EngineState.STARTING
        self._failure: str | None = None
        self._settled = threading.Event()
        self._stopping = threading.Event()
        self._news = threading.Event()
        self._lock = threading.Lock()
        self._spawning = threading.Lock()
        self._jvm: jvm.Jvm | None = None
        self._driver: driver.Driver | None = None
        self._live: dict[str, copies.SparkCopy] = {}
        self._numbers = itertools.count(1)
        self._total = 0
        self._threads = threads.Threads(on_unasked_end=self._note_unasked_end)
        self._started_s: float | None = None
        self._warm = False

    @property
    def state(self) -> engine.EngineState:
        return self._state

    @property
    def warm(self) -> bool:
        return self._warm and self._state is engine.EngineState.READY

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

    def start(self, job: engine.CopyJob) -> copies.SparkCopy:
        assert self._started_s is not None, "open comes first"
        copy = copies.SparkCopy(job, group=f"mm2-copy-{next(self._numbers)}")
        with self._lock:
            final = self._failure if self._state is not engine.EngineState.STOPPED else "stopped"
            if final is None:
                self._live[copy.group] = copy
        if final is not None:
            copy.progress.ended(final)
            return copy
        self._spawn(f"spark {job.description}", lambda stop: self._run_copy(copy, stop))
        self._news.set()
        return copy

    def slots(self) -> engine.SlotView:
        states = [copy.state for copy in self._copies()]
        return engine.SlotView(
            total=self._total,
            used=states.count(engine.CopyState.RUNNING),
            waiting=states.count(engine.CopyState.WAITING_FOR_SLOT),
        )

    def stop(self, deadline_s: float) -> None:
        """Copies that still run are killed: they were asked over their channels before."""
        end = deadline.Deadline.after(deadline_s, now_s=self._now.now_s())
        with self._lock:
            if self._stopping.is_set():
                return
            self._stopping.set()
            if self._state is not engine.EngineState.FAILED:
                self._state = engine.EngineState.STOPPED
        self._settled.set()
        self._news.set()
        for copy in self._copies():
            copy.cancel()
        if self._driver is not None:
            self._wind_up(self._driver, end)
        failed = self._state is engine.EngineState.FAILED
        if self._jvm is not None:
            if self._driver is None:
                self._jvm.kill()
                self._jvm.end(_KILL_S, keep_logs=failed)
            else:
                self._driver.release(end.left_s(self._now.now_s()), keep_logs=failed)
        for copy in self._copies():
            copy.progress.ended(failures.CANCELLED)
        self._threads.stop_all(_KILL_S)

    def _copies(self) -> list[copies.SparkCopy]:
        with self._lock:
            return list(self._live.values())

    def _spawn(self, name: str, body: Callable[[threading.Event], None]) -> threads.OwnedThread:
        with self._spawning:
            return self._threads.start(name, body)

    # The thread that starts the driver.

    def _start_driver(self, stop: threading.Event) -> None:
        stop.set()  # it ends by itself
        try:
            self._jvm = jvm.launch(self._settings)
            # Here and not above: who needs no Spark need not wait for pyspark, and who does waits
            # for the JVM meanwhile.
            from mm2.pipeline.spark import driver

            jvm.await_answer(self._jvm, self._settings)
            connected = driver.connect(self._jvm, self._settings)
            self._total = connected.total_slots()
        except (failures.StartError, failures.GoneError) as error:
            self._fail(str(error))
            return
        with self._lock:
            self._driver = None if self._stopping.is_set() else connected
            if self._driver is not None:
                self._state = engine.EngineState.READY
        if self._driver is None:
            connected.stop_context()
            connected.release(_KILL_S, keep_logs=False)
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
            empty = engine.CopyJob(
                flow="warm-up", index=0, address="", token=b"", entry=spark_job.WARM_UP
            )
            self.start(empty).wait(WARM_UP_S)
        self._warm = True

    def _fail(self, reason: str) -> None:
        """The end of the engine: every copy ends, and the worker decides what that means."""
        with self._lock:
            if self._state in (engine.EngineState.FAILED, engine.EngineState.STOPPED):
                return
            self._state = engine.EngineState.FAILED
            self._failure = reason
        _log.error("Spark at %s: %s", self._settings.master, self.failure)
        if self._jvm is not None:
            self._jvm.kill()
        for copy in self._copies():
            copy.progress.ended(reason)
        self._settled.set()

    def _note_unasked_end(self, end: threads.UnaskedEnd) -> None:
        self._fail(f"the thread {end.name} has failed: {end.error!r}")

    # One thread per copy.

    def _run_copy(self, copy: copies.SparkCopy, stop: threading.Event) -> None:
        try:
            while not self._settled.wait(_CANCEL_POLL_S):
                if copy.cancelled.is_set():
                    break
            if self._driver is None or self._state is not engine.EngineState.READY:
                copy.progress.ended(self._failure or failures.CANCELLED)
            else:
                copy.run(self._driver)
        finally:
            copy.progress.ended(self._failure or failures.CANCELLED)
            with self._lock:
                self._live.pop(copy.group, None)
            stop.set()

    # The thread that watches.

    def _watch(self, stop: threading.Event) -> None:
        assert self._driver is not None
        hurry = 0
        while not stop.is_set() and not self._stopping.is_set():
            waiting = any(
                copy.state is engine.CopyState.WAITING_FOR_SLOT for copy in self._copies()
            )
            hurry = hurry + 1 if waiting else 0
            rushing = waiting and hurry < _HURRY_ROUNDS
            self._news.wait(WATCH_WAITING_S if rushing else WATCH_RUNNING_S)
            self._news.clear()
            if self._stopping.is_set():
                break
            reason = self._look(self._driver)
            if reason is not None:
                self._fail(reason)
                break
        stop.set()

    def _look(self, spark: driver.Driver) -> str | None:
        """One round of asking Spark; returns why the engine is at its end, if it is."""
        if not spark.alive():
            return failures.JVM_DIED
        try:
            if spark.stopped_itself():
                return failures.of_start(spark.jvm.output_tail(), master=self._settings.master)
            for copy in self._copies():
                if copy.state is engine.CopyState.WAITING_FOR_SLOT or not self._settings.local:
                    copy.look(spark)
            self._cancel(spark)
            self._total = spark.total_slots()
        except failures.GoneError as error:
            if not spark.alive():
                return failures.JVM_DIED
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
        except (failures.GoneError, OSError) as error:
            _log.debug("no archive of Spark's classes: %s", error)

    def _cancel(self, spark: driver.Driver) -> None:
        for copy in self._copies():
            if copy.cancelled.is_set():
                spark.cancel(copy.group)

    def _wind_up(self, spark: driver.Driver, end: deadline.Deadline) -> None:
        """End Spark in order, or kill it when that takes until shortly before the deadline.

        On a thread of its own: a JVM that is frozen answers no call, and a call has no deadline.
        """

        def body(stop: threading.Event) -> None:
            stop.set()
            with contextlib.suppress(failures.GoneError):
                self._cancel(spark)
            # Their threads end first: pyspark cannot stop a context that is in use.
            for copy in self._copies():
                copy.wait(end.left_s(self._now.now_s()) / 2)
            spark.stop_context()

        thread = self._spawn("spark-stop", body)
        if not thread.join(max(0.0, end.left_s(self._now.now_s()) - _KILL_S)):
            _log.warning("Spark did not stop in time and is killed")
            spark.jvm.kill()
            thread.join(_KILL_S)
