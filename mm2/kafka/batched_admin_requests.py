"""Sends batched requests through confluent-kafka's AdminClient and waits for the results.

Each request contains a limited number of keys. If a batch is rejected as a whole, it is split to
find the key that caused the error. librdkafka resolves futures on its own thread, but reports
connection errors only when the client is polled. Therefore waiting is divided into slices, with a
poll after each slice.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent import futures
from typing import Any, Protocol, TypeVar

import confluent_kafka

from connect_runtime.base.errors import ConnectError, RetriableError
from connect_runtime.base.timing import Clock, Deadline
from connect_runtime.kafka import client_errors, librdkafka_clients
from connect_runtime.kafka.admin_client import AdminClient
from connect_runtime.kafka.client_errors import ConnectionReports, ErrorAdvice
from connect_runtime.kafka.cluster_access import KafkaClusterAccess


class RequestKey(Protocol):
    """Key of a batched request: a topic or partition. Messages contain its string form."""

    def __lt__(self, other: Any, /) -> bool: ...

    def __hash__(self) -> int: ...


K = TypeVar("K", bound=RequestKey)
T = TypeVar("T")

_POLL_INTERVAL_S = 0.25
_METADATA_REFRESH_S = 1.0
_BROKER_CHECK_S = 5.0
"""Time in which the own client must connect and list the brokers, before librdkafka does."""

KeyedResults = tuple[dict[K, T], dict[K, ConnectError]]
"""Results and errors by key. Every key is in exactly one of the two dictionaries."""
_KeyResult = Any | confluent_kafka.KafkaError


class BatchedAdminClient:
    """Sends batched requests with one AdminClient. Not thread-safe."""

    def __init__(
        self,
        access: KafkaClusterAccess,
        *,
        client_id: str,
        clock: Clock,
        is_shutting_down: Callable[[], bool] = lambda: False,
        advice: Mapping[int, ErrorAdvice] | None = None,
    ) -> None:
        """Create the client. After `is_shutting_down` returns True, calls promptly raise
        `RetriableError`. `advice` contains explanations for the caller by error code."""
        self.where = access.where
        self._gone = is_shutting_down
        self._clock = clock
        self._advice = advice or {}
        self._reports = ConnectionReports()
        self.metadata = AdminClient(
            access, client_id=client_id, clock=clock, is_cancelled=is_shutting_down
        )
        self.client = librdkafka_clients.create_admin_client(
            access, client_id=client_id, settings={}, reports=self._reports
        )

    def close(self) -> None:
        """Run the remaining callbacks. librdkafka itself closes its connections."""
        self.client.poll(0)
        self.metadata.close()

    def create_deadline(self, timeout_s: float) -> Deadline:
        """Create a deadline that is `timeout_s` seconds from now."""
        return Deadline.after(timeout_s, now_s=self._clock.now_s())

    def send_batched_requests(
        self,
        keys: Iterable[K],
        request: Callable[[Sequence[K], float], Mapping[K, futures.Future[Any]]],
        timeout_s: float,
        *,
        operation: str,
        read: Callable[[Any], T],
        batch_size: int,
    ) -> KeyedResults[K, T]:
        """Send requests in batches. A batch that is rejected as a whole is retried in halves.

        Raises errors that affect the whole cluster.
        """
        end = self.create_deadline(timeout_s)
        done: dict[K, T] = {}
        failed: dict[K, ConnectError] = {}
        chunks = _split_into_chunks(sorted(set(keys)), batch_size)
        while chunks:
            chunk = chunks.pop()
            answers = self._send_request(chunk, request, end, doing=operation)
            if len(chunk) > 1 and _is_whole_request_refused(answers.values()):
                chunks += _split_into_chunks(chunk, (len(chunk) + 1) // 2)
                continue
            for key, answer in answers.items():
                if isinstance(answer, confluent_kafka.KafkaError):
                    failed[key] = self._translate_error(answer, f"{operation} {key}")
                else:
                    done[key] = read(answer)
        return done, failed

    def _send_request(
        self,
        chunk: Sequence[K],
        request: Callable[[Sequence[K], float], Mapping[K, futures.Future[Any]]],
        end: Deadline,
        *,
        doing: str,
    ) -> dict[K, _KeyResult]:
        """Send one request and return a result or an error per key. Raises errors that affect the
        whole cluster."""
        doing = f"{doing} {chunk[0]}" + (f" and {len(chunk) - 1} more" if len(chunk) > 1 else "")
        left_s = max(0.01, end.remaining_s(self._clock.now_s()))
        try:
            waiting = request(chunk, left_s)
        except confluent_kafka.KafkaException as error:
            return dict.fromkeys(chunk, error.args[0])
        answers = {key: self._await_future(waiting[key], end, doing=doing) for key in chunk}
        for answer in answers.values():
            trouble = isinstance(answer, confluent_kafka.KafkaError)
            if trouble and client_errors.is_network_error(answer):
                self.client.poll(0)
                raise self._translate_error(answer, doing)
        self._record_success()
        return answers

    def _await_future(
        self, future: futures.Future[Any], end: Deadline, *, doing: str
    ) -> _KeyResult:
        """Wait for a future. librdkafka resolves it at the timeout, so the deadline in this method
        is only a safeguard."""
        refresh_s = self._clock.now_s() + _METADATA_REFRESH_S
        while True:
            try:
                return future.result(timeout=_POLL_INTERVAL_S)
            except confluent_kafka.KafkaException as error:
                return error.args[0]
            except UnicodeDecodeError as error:
                return client_errors.create_malformed_response_error(error)
            except TimeoutError:
                self._poll_and_check(doing)
                if end.is_expired(self._clock.now_s() - 2.0):
                    return client_errors.create_timeout_error()
                if self._clock.now_s() >= refresh_s:
                    self._refresh_metadata(end)
                    refresh_s = self._clock.now_s() + _METADATA_REFRESH_S

    def _refresh_metadata(self, end: Deadline) -> None:
        """Refresh the metadata. Without a refresh, librdkafka keeps waiting for the same broker
        even if it is down.

        A malformed list of brokers would end the process inside the library, so the own client
        checks the list first.
        """
        check_s = max(0.01, min(_BROKER_CHECK_S, end.remaining_s(self._clock.now_s())))
        with contextlib.suppress(confluent_kafka.KafkaException, ConnectError):  # reported later
            self.metadata.list_brokers(check_s)
            self.client.list_topics(timeout=_METADATA_REFRESH_S)

    def _poll_and_check(self, doing: str) -> None:
        """Run due callbacks. Raises an error if the client is shutting down or the connection is
        rejected."""
        self.client.poll(0)
        if self._gone():
            raise RetriableError(f"{doing} on {self.where} was canceled by shutdown")
        refused = self._reports.get_refusal()
        if refused is not None:
            raise self._translate_error(refused, doing)

    def _record_success(self) -> None:
        self.client.poll(0)
        self._reports.clear()

    def _translate_error(self, error: confluent_kafka.KafkaError, doing: str) -> ConnectError:
        return client_errors.translate_error(
            error, doing, where=self.where, reports=self._reports, advice_overrides=self._advice
        )


def _split_into_chunks(keys: Sequence[K], size: int) -> list[Sequence[K]]:
    return [keys[at : at + size] for at in range(0, len(keys), size)]


def _is_whole_request_refused(answers: Iterable[_KeyResult]) -> bool:
    return all(
        isinstance(answer, confluent_kafka.KafkaError)
        and client_errors.may_concern_whole_request(answer.code())
        for answer in answers
    )
