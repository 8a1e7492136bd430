"""Adapter of `ports.shared_log`: one topic, read by one consumer and written by one producer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from connect_runtime.adapters.kafka import log_ends, log_reader, log_writer, topic_admin
from connect_runtime.base import amounts, errors
from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline as base_deadline
from connect_runtime.kafka_client import access as kafka_access
from connect_runtime.ports import shared_log
from connect_runtime.system import polling, threads

_LOG = logging.getLogger(__name__)
_SPAN_S = 30.0
_AGAIN_S = 0.05
_THREADS_S = 10.0

Prepare = Callable[[float], int]
"""Makes and checks the topic within so many seconds; answers the number of its partitions."""

OnBroken = Callable[[str], None]
"""Hears why; runs on the thread that ends: note it, no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How a log is written and read: `committed_only` passes over what is not committed (yet)."""

    patience: log_writer.Patience = log_writer.Patience.TRIED_FOREVER
    committed_only: bool = False


_USUAL = Manner()


class KafkaSharedLog:
    """Implements `shared_log.SharedLog`. `admin` may be shared; it is not closed here.

    `on_broken` is told when a thread of it ended that nobody had asked to: from then on nothing is
    read any more, or written, and whoever goes on acts by what was.

    Invariant: reader and writer are both there (started) or both None.
    """

    def __init__(
        self,
        access: kafka_access.Access,
        *,
        topic: str,
        client_id: str,
        admin: topic_admin.TopicAdmin,
        prepare: Prepare,
        clock: base_clock.Clock,
        manner: Manner = _USUAL,
        on_broken: OnBroken = lambda _: None,
    ) -> None:
        self._access = kafka_access.impatient(access)
        self._topic = topic
        self._client_id = client_id
        self._admin = admin
        self._prepare = prepare
        self._clock = clock
        self._manner = manner
        self._on_broken = on_broken
        self._threads = threads.Threads(on_unasked_end=self._on_unasked_end)
        self._newest = log_ends.LogEnds(
            lambda end: admin.end_offsets(topic, self._partitions, end), clock=clock
        )
        self._partitions = 0
        self._stopped = False
        self._grown = False
        self._reader: log_reader.LogReader | None = None
        self._writer: log_writer.LogWriter | None = None

    @property
    def name(self) -> str:
        """See `shared_log.SharedLog`; so for all below."""
        return self._topic

    def start(self, listener: shared_log.Listener, timeout_s: float) -> None:
        assert self._reader is None, f"{self._topic} is started already"
        end = base_deadline.Deadline.after(timeout_s, now_s=self._clock.now_s())
        self._partitions = self._prepare(timeout_s)
        span = self._span(end)
        self._writer = log_writer.LogWriter(
            self._access,
            topic=self._topic,
            client_id=self._client_id,
            patience=self._manner.patience,
            clock=self._clock,
        )
        self._reader = log_reader.LogReader(
            self._access,
            topic=self._topic,
            client_id=self._client_id,
            committed_only=self._manner.committed_only,
            clock=self._clock,
            listener=listener,
            span=self._span_anew,
        )
        self._reader.begin(span)
        self._threads.start(f"reads {self._topic}", self._reader.run)
        self._threads.start(f"writes {self._topic}", self._writer.run)
        try:
            self._reader.wait_replayed(end)
        except BaseException:
            self.stop(0.0)
            raise

    def send(self, record: shared_log.Record, *, on_recorded: shared_log.OnRecorded) -> None:
        self._started_writer().send(record, on_recorded=on_recorded)

    def read_to_end(self, timeout_s: float) -> None:
        end = base_deadline.Deadline.after(timeout_s, now_s=self._clock.now_s())
        writer, reader = self._started_writer(), self._reader
        assert reader is not None
        if self._stopped:
            raise errors.FatalError(f"reading {self._topic} to its end: the log was stopped")
        writer.settle(end)
        reader.wait_for(self._ends(writer, end), end)

    def stop(self, timeout_s: float) -> None:
        writer, reader = self._writer, self._reader
        if writer is None or reader is None:
            return
        self._stopped = True
        writer.close(timeout_s)
        running = self._threads.stop_all(_THREADS_S)
        if running:
            _LOG.error("%s did not stop within %.0f s", " and ".join(running), _THREADS_S)
        reader.ended(errors.FatalError("it was stopped"))

    def _started_writer(self) -> log_writer.LogWriter:
        assert self._writer is not None, f"start the log of {self._topic} first"
        return self._writer

    def _ends(self, writer: log_writer.LogWriter, end: base_deadline.Deadline) -> Mapping[int, int]:
        """The ends now; an answer that is older than what we know is asked for again.

        (It is that of a leader that was deposed and has not heard of it.)
        """
        known = writer.recorded_ends()
        self._look_for_growth(known)
        found: Mapping[int, int] = {}

        def new_enough() -> bool:
            nonlocal found
            found = self._newest.now(end)
            return all(found.get(each, offset) >= offset for each, offset in known.items())

        left_s = end.left_s(self._clock.now_s())
        if not polling.until(new_enough, timeout_s=left_s, interval_s=_AGAIN_S):
            raise errors.RetriableError(
                f"asking for the ends of {self._topic} on {self._admin.where}: {dict(found)} is "
                f"less than {dict(known)}, where records were written: the topic was truncated, or "
                "its leader is not the leader any more"
            )
        return found

    def _look_for_growth(self, known: Mapping[int, int]) -> None:
        """Partitions are assigned once, as Java does: what is in newer ones is read by nobody."""
        if not self._grown and any(each >= self._partitions for each in known):
            self._grown = True
            _LOG.error(
                "%s had %s when this worker started, and has more: restart all workers,"
                " or what they write there is not seen",
                self._topic,
                amounts.counted(self._partitions, "partition"),
            )

    def _span(self, end: base_deadline.Deadline) -> log_reader.Span:
        return log_reader.Span(
            starts=self._admin.start_offsets(self._topic, self._partitions, end),
            ends=self._admin.end_offsets(self._topic, self._partitions, end),
        )

    def _span_anew(self) -> log_reader.Span:
        """Of a topic that is another one now."""
        if self._writer is not None:
            self._writer.forget_ends()
        return self._span(base_deadline.Deadline.after(_SPAN_S, now_s=self._clock.now_s()))

    def _on_unasked_end(self, ended: threads.UnaskedEnd) -> None:
        why = ended.error or errors.FatalError("it just ended")
        _LOG.error("the thread that %s ended: %s", ended.name, why, exc_info=ended.error)
        if self._reader is not None:
            self._reader.ended(why)
        self._on_broken(f"the thread that {ended.name} ended: {why}")
