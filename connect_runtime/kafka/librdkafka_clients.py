"""Creates configured librdkafka producers, consumers and admin clients.

Connection errors are collected, and logs and errors contain no secrets.

librdkafka completes the futures of an admin client on the client's own thread. A callback on this
thread, or the traceback of a failed request, may hold the last reference to the client. The client
is then freed on its own thread, which aborts the process ("rd_kafka_destroy() called from
librdkafka owned thread"). Admin clients without references are therefore kept until another thread
creates or polls an admin client.

The library raises `UnicodeDecodeError` for text of brokers that is not UTF-8, from any call that
returns the text. Because a consumer may have lost a record by then, its calls raise
`RetriableError`. Producers and admin clients only lose a log line or the text of a connection
error, and this is logged.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import math
import operator
import queue
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

import confluent_kafka
from confluent_kafka import admin as library

from connect_runtime.base.errors import FatalError, RetriableError
from connect_runtime.kafka import client_errors, librdkafka_logging
from connect_runtime.kafka.client_errors import RecentConnectionErrors
from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from connect_runtime.system.system_clock import SystemClock

P = ParamSpec("P")
T = TypeVar("T")

_LOG = logging.getLogger(__name__)
_WARNING_INTERVAL_S = 60.0
_CLOCK = SystemClock()


class _MalformedTextSafeClient:
    """Base class of clients that tolerate malformed text (not UTF-8) from brokers."""

    where = ""
    """Name and addresses of the cluster, for messages."""
    _next_warning_s = -math.inf

    def log_malformed_text(self, error: UnicodeDecodeError) -> None:
        """Log that text from the brokers was malformed, at most once per `_WARNING_INTERVAL_S`
        and client."""
        now_s = _CLOCK.now_s()
        if now_s < self._next_warning_s:
            return
        self._next_warning_s = now_s + _WARNING_INTERVAL_S
        _LOG.warning(
            "%s: a log line or error contains malformed text from brokers (%s) and is not shown",
            self.where,
            error.reason,
        )


ClientT = TypeVar("ClientT", bound=_MalformedTextSafeClient)


def _raise_malformed_text_error(
    method: Callable[Concatenate[ClientT, P], T],
) -> Callable[Concatenate[ClientT, P], T]:
    @functools.wraps(method)
    def call_and_translate_error(self: ClientT, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(self, *args, **kwargs)
        except UnicodeDecodeError as error:
            raise RetriableError(
                f"{self.where}: a response from brokers contains malformed text ({error.reason})"
            ) from error

    return call_and_translate_error


def _log_malformed_text(
    method: Callable[Concatenate[ClientT, P], int],
) -> Callable[Concatenate[ClientT, P], int]:
    @functools.wraps(method)
    def call_and_log_error(self: ClientT, /, *args: P.args, **kwargs: P.kwargs) -> int:
        try:
            return method(self, *args, **kwargs)
        except UnicodeDecodeError as error:
            self.log_malformed_text(error)
            return 0

    return call_and_log_error


class MalformedTextSafeConsumer(_MalformedTextSafeClient, confluent_kafka.Consumer):
    """A consumer whose methods raise `RetriableError` if the brokers return malformed text (not
    UTF-8).

    The consumer may have skipped records in this case. To read these records, the caller must
    assign the partitions again, at the positions from which to continue. A sink task does not do
    so: the task fails, and resumes from its committed offsets when it is restarted.
    """

    @_raise_malformed_text_error
    def poll(self, timeout: float = -1) -> confluent_kafka.Message | None:
        return super().poll(timeout)

    @_raise_malformed_text_error
    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[confluent_kafka.Message]:
        return super().consume(num_messages, timeout)

    @_raise_malformed_text_error
    def list_topics(self, *args: Any, **kwargs: Any) -> Any:
        return super().list_topics(*args, **kwargs)

    @_raise_malformed_text_error
    def get_watermark_offsets(self, *args: Any, **kwargs: Any) -> Any:
        return super().get_watermark_offsets(*args, **kwargs)

    @_raise_malformed_text_error
    def committed(self, *args: Any, **kwargs: Any) -> Any:
        return super().committed(*args, **kwargs)

    @_raise_malformed_text_error
    def commit(self, *args: Any, **kwargs: Any) -> Any:
        return super().commit(*args, **kwargs)

    def close(self) -> None:
        """Close the consumer. The consumer is closed even if the library raises an exception."""
        with contextlib.suppress(UnicodeDecodeError):
            super().close()


class MalformedTextSafeProducer(_MalformedTextSafeClient, confluent_kafka.Producer):
    """A producer that logs malformed text instead of raising `UnicodeDecodeError`."""

    @_log_malformed_text
    def poll(self, timeout: float = -1) -> int:
        return super().poll(timeout)

    @_log_malformed_text
    def flush(self, timeout: float = -1) -> int:
        super().flush(timeout)
        return len(self)


class DeferredFreeAdminClient(_MalformedTextSafeClient, library.AdminClient):
    """An AdminClient that is never freed on a thread of librdkafka. Freeing a client on such a
    thread would abort the process.

    A client without references is freed when a thread creates or polls another client of this
    class. If no thread does so, the client remains in memory until the process exits.
    """

    # A class attribute, because module globals are gone when the interpreter shuts down.
    _dropped: queue.SimpleQueue[DeferredFreeAdminClient] = queue.SimpleQueue()

    def __init__(self, config: dict[str, Any], **kwargs: Any) -> None:
        """Free clients that are no longer referenced, then create a client. Raises the errors of
        `AdminClient`."""
        self._free_dropped_clients()
        super().__init__(config, **kwargs)

    @_log_malformed_text
    def poll(self, timeout: float = -1.0) -> int:
        """Free clients that are no longer referenced, then poll for events. `timeout` is in
        seconds; a negative timeout waits forever."""
        self._free_dropped_clients()
        return super().poll(timeout)

    @_raise_malformed_text_error
    def list_topics(self, *args: Any, **kwargs: Any) -> library.ClusterMetadata:
        """List topics. Raises `RetriableError` if the brokers return malformed text."""
        return super().list_topics(*args, **kwargs)

    @_raise_malformed_text_error
    def list_groups(self, *args: Any, **kwargs: Any) -> list[library.GroupMetadata]:
        """List groups. Raises `RetriableError` if the brokers return malformed text."""
        return super().list_groups(*args, **kwargs)

    def __del__(self) -> None:
        """Queue the last reference to the client, so that another thread frees it. The queue's
        `put` is reentrant."""
        self._dropped.put(self)

    def _free_dropped_clients(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                self._dropped.get_nowait()


def create_producer(
    access: KafkaClusterAccess,
    *,
    client_id: str,
    settings: Mapping[str, object],
    reports: RecentConnectionErrors,
) -> confluent_kafka.Producer:
    """Create a producer. `settings`, with librdkafka's names, override the defaults.

    Raises `FatalError` for invalid settings.
    """
    config = _build_config(access, client_id=client_id, settings=settings, reports=reports)
    with _explain_creation_failure(access):
        client = MalformedTextSafeProducer(
            config, logger=librdkafka_logging.get_cluster_logger(access)
        )
    client.where = access.name_and_addresses
    return client


def create_consumer(
    access: KafkaClusterAccess,
    *,
    client_id: str,
    settings: Mapping[str, object],
    reports: RecentConnectionErrors,
) -> confluent_kafka.Consumer:
    """Create a consumer. `settings`, with librdkafka's names, override the defaults.

    Raises `FatalError` for invalid settings.
    """
    config = _build_config(access, client_id=client_id, settings=settings, reports=reports)
    with _explain_creation_failure(access):
        client = MalformedTextSafeConsumer(
            config, logger=librdkafka_logging.get_cluster_logger(access)
        )
    client.where = access.name_and_addresses
    return client


def create_admin_client(
    access: KafkaClusterAccess,
    *,
    client_id: str,
    settings: Mapping[str, object],
    reports: RecentConnectionErrors,
) -> library.AdminClient:
    """Create an admin client. `settings`, with librdkafka's names, override the defaults.

    Raises `FatalError` for invalid settings.
    """
    config = _build_config(access, client_id=client_id, settings=settings, reports=reports)
    with _explain_creation_failure(access):
        client = DeferredFreeAdminClient(
            config, logger=librdkafka_logging.get_cluster_logger(access)
        )
    client.where = access.name_and_addresses
    return client


def _build_config(
    access: KafkaClusterAccess,
    *,
    client_id: str,
    settings: Mapping[str, object],
    reports: RecentConnectionErrors,
) -> dict[str, Any]:
    return {
        "log.connection.close": False,
        "socket.timeout.ms": 30_000,  # Java's default of request.timeout.ms
        "reconnect.backoff.max.ms": 1_000,  # Java's default; librdkafka's 10 s delays recovery
        **access.librdkafka_settings,
        **settings,
        "bootstrap.servers": ",".join(access.bootstrap),
        "client.id": client_id,
        "enable.metrics.push": False,
        "error_cb": _redact_errors(access, reports.record_connection_error),
    }


def _redact_errors(
    access: KafkaClusterAccess, on_error: Callable[[confluent_kafka.KafkaError], None]
) -> Callable[[confluent_kafka.KafkaError], None]:
    """Wrap an error callback so that the errors passed to it contain no secrets.

    librdkafka's errors include a token issuer's response, which may repeat the client secret.
    """
    forms = librdkafka_logging.list_secret_encodings(access)
    if not forms:
        return on_error
    return lambda error: on_error(
        confluent_kafka.KafkaError(
            error.code(),
            librdkafka_logging.redact_secrets(client_errors.get_error_text(error), forms),
        )
    )


@contextlib.contextmanager
def _explain_creation_failure(access: KafkaClusterAccess) -> Iterator[None]:
    """Translate client creation errors: invalid settings or certificates, and too many clients.

    Each client uses one of the 1,024 thread-local keys of a process.
    """
    try:
        yield
    except confluent_kafka.KafkaException as error:
        raise client_errors.translate_error(
            error.args[0], "configuring a client", where=access.name_and_addresses
        ) from None  # the exception's context contains the configuration, including secrets
    except RuntimeError as error:
        raise FatalError(
            f"configuring a client at {access.name_and_addresses}: {error}; a process can "
            "have about a thousand librdkafka clients: run fewer tasks per process"
        ) from None


_call_headers = operator.methodcaller("headers")


def read_headers(message: confluent_kafka.Message) -> Sequence[tuple[str, bytes | None]] | None:
    """Return a record's headers; None if a header name is not UTF-8. Call only once per message.

    If a header name is not UTF-8, confluent-kafka sets an exception, but also returns a list with
    an invalid entry. The interpreter always detects the exception if `headers` is called through
    `methodcaller`. It does not detect the exception in a direct call that it has specialized, and
    the process crashes. A second call for the same message also crashes the process.
    """
    try:
        found: Sequence[tuple[str, bytes | None]] | None = _call_headers(message)
    except (SystemError, UnicodeDecodeError):
        return None
    return found or ()
