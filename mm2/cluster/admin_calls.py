"""Requests to one cluster over confluent-kafka's AdminClient, each waited for until its deadline.

Requests carry a bounded number of keys. The library's futures resolve on a thread of its own, and
why a connection fails comes out only when the client is polled; so waiting is done in slices, with
a poll and a look at the reports between them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent import futures
from typing import Any, Protocol, TypeVar

import confluent_kafka
from confluent_kafka import admin as library

from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline as base_deadline
from connect_runtime.base import errors
from connect_runtime.kafka_client import access as kafka_access
from connect_runtime.kafka_client import clients as kafka_clients
from connect_runtime.kafka_client import translate_errors


class Key(Protocol):
    """What is asked about: a topic's name, a partition. Its text is what people are told."""

    def __lt__(self, other: Any, /) -> bool: ...

    def __hash__(self) -> int: ...


K = TypeVar("K", bound=Key)
T = TypeVar("T")

_SLICE_S = 0.25
_PATIENCE_S = 1.0

Answers = tuple[dict[K, T], dict[K, errors.ConnectError]]
"""What was answered, and what failed: every key is in exactly one of the two."""
_Answer = Any | confluent_kafka.KafkaError


class AdminCalls:
    """One admin client, for one thread at a time."""

    def __init__(
        self,
        access: kafka_access.Access,
        *,
        client_id: str,
        clock: base_clock.Clock,
        gone: Callable[[], bool] = lambda: False,
        advice: Mapping[int, translate_errors.Advice] | None = None,
    ) -> None:
        """Once `gone`, nobody waits for answers any more: calls end soon, with `RetriableError`.
        `advice`: what certain error codes mean to who asks."""
        self.where = access.where
        self._gone = gone
        self._clock = clock
        self._advice = advice or {}
        self._reports = translate_errors.ConnectionReports()
        self.client = kafka_clients.admin_client(
            access, client_id=client_id, settings={}, reports=self._reports
        )

    def close(self) -> None:
        """Hear the library out; it lets go by itself."""
        self.client.poll(0)

    def deadline(self, timeout_s: float) -> base_deadline.Deadline:
        return base_deadline.Deadline.after(timeout_s, now_s=self._clock.now_s())

    def metadata(self, timeout_s: float, *, doing: str) -> library.ClusterMetadata:
        end = self.deadline(timeout_s)
        while True:
            left_s = end.left_s(self._clock.now_s())
            try:
                metadata = self.client.list_topics(timeout=max(0.01, min(left_s, 1.0)))
            except confluent_kafka.KafkaException as error:
                self._look(doing)
                if left_s == 0.0 or not translate_errors.is_retriable(error.args[0]):
                    raise self._translated(error.args[0], doing) from error
            else:
                self._answered()
                return metadata

    def each(
        self,
        keys: Iterable[K],
        request: Callable[[Sequence[K], float], Mapping[K, futures.Future[Any]]],
        timeout_s: float,
        *,
        doing: str,
        read: Callable[[Any], T],
        at_once: int,
    ) -> Answers[K, T]:
        """Ask in chunks; a chunk refused as a whole is asked again in halves, to find the one.

        Raises what concerns the whole cluster, as ports say.
        """
        end = self.deadline(timeout_s)
        done: dict[K, T] = {}
        failed: dict[K, errors.ConnectError] = {}
        chunks = _chunks(sorted(set(keys)), at_once)
        while chunks:
            chunk = chunks.pop()
            answers = self._ask(chunk, request, end, doing=doing)
            if len(chunk) > 1 and _refused_as_a_whole(answers.values()):
                chunks += _chunks(chunk, (len(chunk) + 1) // 2)
                continue
            for key, answer in answers.items():
                if isinstance(answer, confluent_kafka.KafkaError):
                    failed[key] = self._translated(answer, f"{doing} {key}")
                else:
                    done[key] = read(answer)
        return done, failed

    def _ask(
        self,
        chunk: Sequence[K],
        request: Callable[[Sequence[K], float], Mapping[K, futures.Future[Any]]],
        end: base_deadline.Deadline,
        *,
        doing: str,
    ) -> dict[K, _Answer]:
        """One request's answer or error per key; raises what concerns the whole cluster."""
        doing = f"{doing} {chunk[0]}" + (f" and {len(chunk) - 1} more" if len(chunk) > 1 else "")
        left_s = max(0.01, end.left_s(self._clock.now_s()))
        try:
            waiting = request(chunk, left_s)
        except confluent_kafka.KafkaException as error:
            return dict.fromkeys(chunk, error.args[0])
        answers = {key: self._wait(waiting[key], end, doing=doing) for key in chunk}
        for answer in answers.values():
            trouble = isinstance(answer, confluent_kafka.KafkaError)
            if trouble and translate_errors.is_network_trouble(answer):
                self.client.poll(0)
                raise self._translated(answer, doing)
        self._answered()
        return answers

    def _wait(
        self, future: futures.Future[Any], end: base_deadline.Deadline, *, doing: str
    ) -> _Answer:
        """The library ends the future itself when time is up; we only guard against its not."""
        refresh_s = self._clock.now_s() + _PATIENCE_S
        while True:
            try:
                return future.result(timeout=_SLICE_S)
            except confluent_kafka.KafkaException as error:
                return error.args[0]
            except TimeoutError:
                self._look(doing)
                if end.passed(self._clock.now_s() - 2.0):
                    return translate_errors.timed_out()
                if self._clock.now_s() >= refresh_s:
                    self._find_another_broker()
                    refresh_s = self._clock.now_s() + _PATIENCE_S

    def _find_another_broker(self) -> None:
        """The library waits for one certain broker, even a dead one, until it gets new metadata."""
        with contextlib.suppress(confluent_kafka.KafkaException):  # the request itself tells
            self.client.list_topics(timeout=_PATIENCE_S)

    def _look(self, doing: str) -> None:
        """Hear what the connections say; a refusal ends the waiting, and so does who is gone."""
        self.client.poll(0)
        if self._gone():
            raise errors.RetriableError(f"{doing} on {self.where} was given up")
        refused = self._reports.refused()
        if refused is not None:
            raise self._translated(refused, doing)

    def _answered(self) -> None:
        self.client.poll(0)
        self._reports.forget()

    def _translated(self, error: confluent_kafka.KafkaError, doing: str) -> errors.ConnectError:
        return translate_errors.translate(
            error, doing, where=self.where, reports=self._reports, own=self._advice
        )


def _chunks(keys: Sequence[K], size: int) -> list[Sequence[K]]:
    return [keys[at : at + size] for at in range(0, len(keys), size)]


def _refused_as_a_whole(answers: Iterable[_Answer]) -> bool:
    return all(
        isinstance(answer, confluent_kafka.KafkaError)
        and translate_errors.may_concern_whole_request(answer)
        for answer in answers
    )
