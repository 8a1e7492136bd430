"""Sends batched requests through confluent-kafka's AdminClient and awaits the results.

A request carries a bounded number of keys; a batch that is refused as a whole is split to find the
key at fault. librdkafka resolves futures on its own thread and reports connection errors only when
the client is polled, so waiting is done in slices with a poll between them.
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
    """A topic name or a partition; its text appears in messages."""

    def __lt__(self, other: Any, /) -> bool: ...

    def __hash__(self) -> int: ...


K = TypeVar("K", bound=RequestKey)
T = TypeVar("T")

_POLL_INTERVAL_S = 0.25
_METADATA_REFRESH_S = 1.0

KeyedResults = tuple[dict[K, T], dict[K, ConnectError]]
"""Results and errors; every key is in exactly one of the two."""
_KeyResult = Any | confluent_kafka.KafkaError


class BatchedAdminClient:
    """Sends batched requests with one AdminClient. One thread at a time."""

    def __init__(
        self,
        access: KafkaClusterAccess,
        *,
        client_id: str,
        clock: Clock,
        is_shutting_down: Callable[[], bool] = lambda: False,
        advice: Mapping[int, ErrorAdvice] | None = None,
    ) -> None:
        """Once `is_shutting_down` returns True, calls end soon with
        `RetriableError`. `advice` explains error codes to the caller."""
        self.where = access.where
        self._gone = is_shutting_down
        self._clock = clock
        self._advice = advice or {}
        self._reports = ConnectionReports()
        self.client = librdkafka_clients.create_admin_client(
            access, client_id=client_id, settings={}, reports=self._reports
        )

    def close(self) -> None:
        """Serve remaining callbacks; librdkafka closes the connections itself."""
        self.client.poll(0)

    def create_deadline(self, timeout_s: float) -> Deadline:
        """Deadline `timeout_s` seconds from now."""
        return Deadline.after(timeout_s, now_s=self._clock.now_s())

    def read_metadata(self, timeout_s: float, *, operation: str) -> library.ClusterMetadata:
        """Read the cluster's metadata; retries until the timeout."""
        end = self.create_deadline(timeout_s)
        while True:
            left_s = end.remaining_s(self._clock.now_s())
            try:
                metadata = self.client.list_topics(timeout=max(0.01, min(left_s, 1.0)))
            except confluent_kafka.KafkaException as error:
                self._poll_and_check(operation)
                if left_s == 0.0 or not client_errors.is_retriable(error.args[0]):
                    raise self._translate(error.args[0], operation) from error
            else:
                self._record_success()
                return metadata

    def send_batched(
        self,
        keys: Iterable[K],
        request: Callable[[Sequence[K], float], Mapping[K, futures.Future[Any]]],
        timeout_s: float,
        *,
        operation: str,
        read: Callable[[Any], T],
        batch_size: int,
    ) -> KeyedResults[K, T]:
        """Send requests in batches; a batch that is refused as a whole is retried in halves.

        Raises errors that concern the whole cluster.
        """
        end = self.create_deadline(timeout_s)
        done: dict[K, T] = {}
        failed: dict[K, ConnectError] = {}
        chunks = _split_into_chunks(sorted(set(keys)), batch_size)
        while chunks:
            chunk = chunks.pop()
            answers = self._send(chunk, request, end, doing=operation)
            if len(chunk) > 1 and _is_whole_request_refused(answers.values()):
                chunks += _split_into_chunks(chunk, (len(chunk) + 1) // 2)
                continue
            for key, answer in answers.items():
                if isinstance(answer, confluent_kafka.KafkaError):
                    failed[key] = self._translate(answer, f"{operation} {key}")
                else:
                    done[key] = read(answer)
        return done, failed

    def _send(
        self,
        chunk: Sequence[K],
        request: Callable[[Sequence[K], float], Mapping[K, futures.Future[Any]]],
        end: Deadline,
        *,
        doing: str,
    ) -> dict[K, _KeyResult]:
        """Send one request and return a result or error per key; raises errors that concern the
        whole cluster."""
        doing = f"{doing} {chunk[0]}" + (f" and {len(chunk) - 1} more" if len(chunk) > 1 else "")
        left_s = max(0.01, end.remaining_s(self._clock.now_s()))
        try:
            waiting = request(chunk, left_s)
        except confluent_kafka.KafkaException as error:
            return dict.fromkeys(chunk, error.args[0])
        answers = {key: self._wait(waiting[key], end, doing=doing) for key in chunk}
        for answer in answers.values():
            trouble = isinstance(answer, confluent_kafka.KafkaError)
            if trouble and client_errors.is_network_error(answer):
                self.client.poll(0)
                raise self._translate(answer, doing)
        self._record_success()
        return answers

    def _wait(self, future: futures.Future[Any], end: Deadline, *, doing: str) -> _KeyResult:
        """Wait for a future. librdkafka resolves it at the timeout; the deadline here is a
        safeguard."""
        refresh_s = self._clock.now_s() + _METADATA_REFRESH_S
        while True:
            try:
                return future.result(timeout=_POLL_INTERVAL_S)
            except confluent_kafka.KafkaException as error:
                return error.args[0]
            except TimeoutError:
                self._poll_and_check(doing)
                if end.is_expired(self._clock.now_s() - 2.0):
                    return client_errors.create_timeout_error()
                if self._clock.now_s() >= refresh_s:
                    self._refresh_metadata()
                    refresh_s = self._clock.now_s() + _METADATA_REFRESH_S

    def _refresh_metadata(self) -> None:
        """Refresh the metadata, without which librdkafka keeps waiting for one broker, even a
        dead one."""
        with contextlib.suppress(confluent_kafka.KafkaException):  # the request reports the error
            self.client.list_topics(timeout=_METADATA_REFRESH_S)

    def _poll_and_check(self, doing: str) -> None:
        """Serve callbacks; raise if the client is shutting down or the connection is rejected."""
        self.client.poll(0)
        if self._gone():
            raise RetriableError(f"{doing} on {self.where} was canceled by shutdown")
        refused = self._reports.get_refusal()
        if refused is not None:
            raise self._translate(refused, doing)

    def _record_success(self) -> None:
        self.client.poll(0)
        self._reports.clear()

    def _translate(self, error: confluent_kafka.KafkaError, doing: str) -> ConnectError:
        return client_errors.translate_error(
            error, doing, where=self.where, reports=self._reports, advice_overrides=self._advice
        )


def _split_into_chunks(keys: Sequence[K], size: int) -> list[Sequence[K]]:
    return [keys[at : at + size] for at in range(0, len(keys), size)]


def _is_whole_request_refused(answers: Iterable[_KeyResult]) -> bool:
    return all(
        isinstance(answer, confluent_kafka.KafkaError)
        and client_errors.may_concern_whole_request(answer)
        for answer in answers
    )
