"""Sends batched requests through confluent-kafka's AdminClient and awaits the results.

A request carries a bounded number of keys; a batch that is refused as a whole is divided to
find the key at fault. librdkafka resolves futures on its own thread and reports connection
errors only when the client is polled, so waiting is done in slices with a poll between them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent import futures
from typing import Any, Protocol, TypeVar

import confluent_kafka
from confluent_kafka import admin as library

from connect_runtime.base.errors import ConnectError, RetriableError
from connect_runtime.base.timing import Clock, Deadline
from connect_runtime.kafka import client_errors, librdkafka_clients
from connect_runtime.kafka.client_errors import ConnectionReports, ErrorAdvice
from connect_runtime.kafka.cluster_access import KafkaClusterAccess


class RequestKey(Protocol):
    """What is asked about: a topic's name, a partition. Its text is what people are told."""

    def __lt__(self, other: Any, /) -> bool: ...

    def __hash__(self) -> int: ...


K = TypeVar("K", bound=RequestKey)
T = TypeVar("T")

_POLL_INTERVAL_S = 0.25
_METADATA_REFRESH_S = 1.0

KeyedResults = tuple[dict[K, T], dict[K, ConnectError]]
"""What was answered, and what failed: every key is in exactly one of the two."""
_KeyResult = Any | confluent_kafka.KafkaError


class BatchedAdminClient:
    """One admin client, for one thread at a time."""

    def __init__(
        self,
        access: KafkaClusterAccess,
        *,
        client_id: str,
        clock: Clock,
        gone: Callable[[], bool] = lambda: False,
        advice: Mapping[int, ErrorAdvice] | None = None,
    ) -> None:
        """Once `gone`, nobody waits for answers any more: calls end soon, with `RetriableError`.
        `advice`: what certain error codes mean to who asks."""
        self.where = access.where
        self._gone = gone
        self._clock = clock
        self._advice = advice or {}
        self._reports = ConnectionReports()
        self.client = librdkafka_clients.create_admin_client(
            access, client_id=client_id, settings={}, reports=self._reports
        )

    def close(self) -> None:
        """Hear the library out; it lets go by itself."""
        self.client.poll(0)

    def deadline(self, timeout_s: float) -> Deadline:
        return Deadline.after(timeout_s, now_s=self._clock.now_s())

    def metadata(self, timeout_s: float, *, doing: str) -> library.ClusterMetadata:
        end = self.deadline(timeout_s)
        while True:
            left_s = end.left_s(self._clock.now_s())
            try:
                metadata = self.client.list_topics(timeout=max(0.01, min(left_s, 1.0)))
            except confluent_kafka.KafkaException as error:
                self._look(doing)
                if left_s == 0.0 or not client_errors.is_retriable(error.args[0]):
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
    ) -> KeyedResults[K, T]:
        """Ask in chunks; a chunk refused as a whole is asked again in halves, to find the one.

        Raises what concerns the whole cluster, as ports say.
        """
        end = self.deadline(timeout_s)
        done: dict[K, T] = {}
        failed: dict[K, ConnectError] = {}
        chunks = _split_into_chunks(sorted(set(keys)), at_once)
        while chunks:
            chunk = chunks.pop()
            answers = self._ask(chunk, request, end, doing=doing)
            if len(chunk) > 1 and _is_whole_request_refused(answers.values()):
                chunks += _split_into_chunks(chunk, (len(chunk) + 1) // 2)
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
        end: Deadline,
        *,
        doing: str,
    ) -> dict[K, _KeyResult]:
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
            if trouble and client_errors.is_network_error(answer):
                self.client.poll(0)
                raise self._translated(answer, doing)
        self._answered()
        return answers

    def _wait(self, future: futures.Future[Any], end: Deadline, *, doing: str) -> _KeyResult:
        """The library ends the future itself when time is up; we only guard against its not."""
        refresh_s = self._clock.now_s() + _METADATA_REFRESH_S
        while True:
            try:
                return future.result(timeout=_POLL_INTERVAL_S)
            except confluent_kafka.KafkaException as error:
                return error.args[0]
            except TimeoutError:
                self._look(doing)
                if end.passed(self._clock.now_s() - 2.0):
                    return client_errors.create_timeout_error()
                if self._clock.now_s() >= refresh_s:
                    self._find_another_broker()
                    refresh_s = self._clock.now_s() + _METADATA_REFRESH_S

    def _find_another_broker(self) -> None:
        """The library waits for one certain broker, even a dead one, until it gets new metadata."""
        with contextlib.suppress(confluent_kafka.KafkaException):  # the request itself tells
            self.client.list_topics(timeout=_METADATA_REFRESH_S)

    def _look(self, doing: str) -> None:
        """Hear what the connections say; a refusal ends the waiting, and so does who is gone."""
        self.client.poll(0)
        if self._gone():
            raise RetriableError(f"{doing} on {self.where} was given up")
        refused = self._reports.refused()
        if refused is not None:
            raise self._translated(refused, doing)

    def _answered(self) -> None:
        self.client.poll(0)
        self._reports.forget()

    def _translated(self, error: confluent_kafka.KafkaError, doing: str) -> ConnectError:
        return client_errors.translate_error(
            error, doing, where=self.where, reports=self._reports, own=self._advice
        )


def _split_into_chunks(keys: Sequence[K], size: int) -> list[Sequence[K]]:
    return [keys[at : at + size] for at in range(0, len(keys), size)]


def _is_whole_request_refused(answers: Iterable[_KeyResult]) -> bool:
    return all(
        isinstance(answer, confluent_kafka.KafkaError)
        and client_errors.may_concern_whole_request(answer)
        for answer in answers
    )
