"""What a sink task is given; what it asks for is kept until the worker comes round."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from connect_runtime.api import context, errors
from connect_runtime.base import ids
from connect_runtime.runtime import contexts

_Partitions = frozenset[ids.TopicPartition]


class SinkTaskContext(contexts.TaskContext):
    """Implements `context.SinkTaskContext`, for the task's thread.

    `assigned` is what the worker says, `paused` what the task has paused of it, or of what it had
    until the rebalance that is under way; the consumer is
    told through `on_pause(partitions, paused)`.
    """

    def __init__(
        self,
        task: ids.ConnectorTaskId,
        basics: contexts.Basics,
        *,
        resolve: Callable[[], Mapping[str, str]],
    ) -> None:
        super().__init__(task, basics, resolve=resolve)
        self.assigned: _Partitions = frozenset()
        self.paused: _Partitions = frozenset()
        self.on_pause: Callable[[_Partitions, bool], None] = lambda _partitions, _paused: None
        self._rewinds: dict[ids.TopicPartition, int] = {}
        self._retry_s: float | None = None
        self._commit_wanted = False

    def assignment(self) -> frozenset[ids.TopicPartition]:
        """See `api.context`; so for all below."""
        return self._open(self.assigned)

    def rewind(self, offsets: Mapping[ids.TopicPartition, int]) -> None:
        self._open(self._rewinds).update(offsets)

    def retry_after_ms(self, timeout_ms: int) -> None:
        self._open(None)
        self._retry_s = timeout_ms / 1000.0

    def pause(self, *partitions: ids.TopicPartition) -> None:
        chosen = self._assigned("pausing", partitions)
        self.paused |= chosen
        self.on_pause(chosen, True)

    def resume(self, *partitions: ids.TopicPartition) -> None:
        chosen = self._assigned("resuming", partitions)
        self.paused -= chosen
        self.on_pause(chosen, False)

    def request_commit(self) -> None:
        self._open(None)
        self._commit_wanted = True

    @property
    def errant_record_reporter(self) -> context.ErrantRecordReporter | None:
        return None

    # The worker's

    def take_rewinds(self, assigned: _Partitions) -> dict[ids.TopicPartition, int]:
        """Asked for since the last call; of partitions that are gone: nobody's any more."""
        wanted, self._rewinds = self._rewinds, {}
        return {each: offset for each, offset in wanted.items() if each in assigned}

    def take_retry_s(self) -> float | None:
        wanted, self._retry_s = self._retry_s, None
        return wanted

    def take_commit_request(self) -> bool:
        wanted, self._commit_wanted = self._commit_wanted, False
        return wanted

    def _assigned(self, doing: str, partitions: Collection[ids.TopicPartition]) -> _Partitions:
        chosen = self._open(frozenset(partitions))
        foreign = sorted(chosen - self.assigned)
        if foreign:
            raise errors.IllegalWorkerStateError(
                f"{doing} {', '.join(map(str, foreign))}: not assigned to {self.task_id} now"
            )
        return chosen
