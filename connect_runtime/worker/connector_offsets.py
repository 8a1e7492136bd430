"""Reads, alters and resets the offsets of a stopped connector (KIP-875).

Source connector offsets are in the offset store. Sink connector offsets are the committed offsets
of the connector's consumer group. The caller must check that the connector is stopped. Messages are
the same as in Java. Java: Worker.connectorOffsets, Worker.modifyConnectorOffsets.
"""

from __future__ import annotations

import contextlib
import enum
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence

from connect_runtime.api.connector import Connector, SinkConnector, SourceConnector
from connect_runtime.api.errors import ConnectError, UnsupportedOperationError
from connect_runtime.api.records import SourceOffset
from connect_runtime.base.clock_and_deadline import Deadline
from connect_runtime.base.ids import TopicPartition
from connect_runtime.config import connector_client_settings
from connect_runtime.herder.herder_interface import (
    ConnectorOffset,
    ConnectorOffsets,
    ConnectorOffsetsModified,
    ConnectRestError,
)
from connect_runtime.storage import offset_store
from connect_runtime.storage.cluster_config_state import RawConfig
from connect_runtime.storage.offset_topic import SourcePartition
from connect_runtime.worker import connector_offset_json, task_factory
from connect_runtime.worker.connector_offset_json import (
    InvalidSinkOffsetError,
    NormalizedSourceOffset,
)
from connect_runtime.worker.task_client_interfaces import (
    ConsumerGroupInUseError,
    GroupOffsetsClient,
)
from connect_runtime.worker.task_factory import ResolvedConfig, WorkerDeps


class SourceOrSink(enum.Enum):
    """Whether a connector is a source or a sink. The enum value is the word used in messages."""

    SOURCE = "source"
    SINK = "sink"


class OffsetChangeKind(enum.Enum):
    """Kind of offset change: alter or reset. The enum value contains the verb and its past
    participle for use in messages."""

    ALTER = ("alter", "altered")
    RESET = ("reset", "reset")

    @property
    def verb(self) -> str:
        return self.value[0]

    @property
    def past_participle(self) -> str:
        return self.value[1]


def format_offset_change_success(change: OffsetChangeKind, *, by_connector_too: bool) -> str:
    """Format the message for a successful offset change.

    `by_connector_too` is the return value of the connector's `alter_offsets`: True if the connector
    has changed its externally managed offsets as well.
    """
    if by_connector_too:
        return f"The offsets for this connector have been {change.past_participle} successfully"
    return (
        "The Connect framework-managed offsets for this connector have been "
        f"{change.past_participle} successfully. However, if this connector manages offsets "
        f"externally, they will need to be manually {change.past_participle} in the system that "
        "the connector uses."
    )


def format_offset_changes_unsupported(connector: str) -> str:
    """Format the error message for a connector that does not support offset changes."""
    return (
        f"Failed to modify offsets for connector {connector} because it doesn't support external "
        "modification of offsets"
    )


def format_offset_read_failure(kind: SourceOrSink, connector: str) -> str:
    """Format the error message for connector offsets that cannot be read."""
    what = "consumer group offsets" if kind is SourceOrSink.SINK else "offsets"
    return f"Failed to retrieve {what} for {kind.value} connector {connector}"


def format_offset_change_failure(kind: SourceOrSink, connector: str) -> str:
    """Format the generic error message for a failed offset change, used if no specific message
    applies."""
    return f"Failed to modify offsets for {kind.value} connector {connector}"


def format_alter_offsets_timeout(kind: SourceOrSink, connector: str) -> str:
    """Format the error message for a call of the connector's `alter_offsets` that exceeded the time
    limit."""
    return (
        f"Timed out while calling the 'alterOffsets' method for {kind.value} connector {connector}"
    )


def format_offset_read_timeout(connector: str) -> str:
    """Format the error message for a timeout while reading a source connector's offsets."""
    return (
        "Timed out while trying to read to the end of the offsets topic prior to modifying offsets "
        f"for source connector {connector}"
    )


def format_offset_write_timeout(connector: str) -> str:
    """Format the error message for a timeout while writing a source connector's offsets."""
    return f"Timed out while attempting to modify offsets for source connector {connector}"


def format_group_offsets_list_failure(connector: str) -> str:
    """Format the error message for a failure to list the offsets of a sink connector's consumer
    group."""
    return f"Failed to list offsets prior to resetting offsets for sink connector {connector}"


def format_group_offsets_change_failure(change: OffsetChangeKind, connector: str) -> str:
    """Format the error message for a failure to change the offsets of a sink connector's consumer
    group."""
    sink = "sink " if change is OffsetChangeKind.RESET else ""
    return f"Failed to {change.verb} consumer group offsets for {sink}connector {connector}"


def format_consumer_group_in_use(change: OffsetChangeKind, connector: str) -> str:
    """Format the error message for a sink connector whose consumer group still has members, so its
    offsets cannot be changed."""
    return (
        f"Failed to {change.verb} consumer group offsets for connector {connector} either because "
        "its tasks haven't stopped completely yet or the connector was resumed before the request "
        f"to {change.verb} its offsets could be successfully completed. If the connector is in a "
        "stopped state, this operation can be safely retried. If it doesn't eventually succeed, "
        "the Connect cluster may need to be restarted to get rid of the zombie sink tasks."
    )


_LOG = logging.getLogger(__name__)
_BAD_REQUEST_STATUS = 400

REQUEST_TIMEOUT_S = 90.0
"""Time limit of a request that reads or changes offsets, including the connector's `alter_offsets`
call. Same as in Java's REST API."""

OffsetPairs = Sequence[tuple[Mapping[str, object], "Mapping[str, object] | None"]]
SinkOffsetChanges = Mapping[TopicPartition, "int | None"]


class ConnectorOffsetRequests:
    """Handles REST requests that read or change connector offsets. Stateless and thread-safe.

    Calls block for up to `REQUEST_TIMEOUT_S`, or longer if the connector's `alter_offsets` takes
    longer.
    """

    def __init__(self, deps: WorkerDeps) -> None:
        self._deps = deps

    def read_offsets(self, name: str, config: RawConfig) -> ConnectorOffsets:
        """Return all offsets of the connector. Raises `ConnectError` with the same message as
        Java."""
        props = self._deps.resolve_plugin_config(config)
        made = self._create_connector(name, props)
        with _wrap_unexpected_errors(
            format_offset_read_failure(_determine_source_or_sink(made), name)
        ):
            if isinstance(made, SinkConnector):
                return _build_offsets_response(
                    _SinkOffsetRequests(name, props, self._deps).read_offsets()
                )
            return _build_offsets_response(
                self._deps.offsets.read_all_offsets(name, REQUEST_TIMEOUT_S)
            )

    def modify_offsets(
        self, name: str, config: RawConfig, offsets: OffsetPairs | None
    ) -> ConnectorOffsetsModified:
        """Alter the given offsets, or reset all offsets if `offsets` is None.

        Calls the connector's `alter_offsets` first, which may refuse the change. Raises
        `ConnectRestError` 400 for invalid sink offsets, otherwise `ConnectError`, with the same
        message as Java.
        """
        props = self._deps.resolve_plugin_config(config)
        made = self._create_connector(name, props)
        change = OffsetChangeKind.RESET if offsets is None else OffsetChangeKind.ALTER
        with _wrap_unexpected_errors(
            format_offset_change_failure(_determine_source_or_sink(made), name)
        ):
            if isinstance(made, SinkConnector):
                done = _SinkOffsetRequests(name, props, self._deps).modify_offsets(made, offsets)
            else:
                assert isinstance(made, SourceConnector), made
                done = _SourceOffsetRequests(name, props, self._deps).modify_offsets(made, offsets)
        _LOG.info("offsets of connector %s: %s", name, change.past_participle)
        return ConnectorOffsetsModified(format_offset_change_success(change, by_connector_too=done))

    def _create_connector(self, name: str, props: ResolvedConfig) -> Connector:
        """Instantiate the connector class without validating the connector's other settings."""
        with _wrap_unexpected_errors(f"Failed to create connector {name} to handle its offsets"):
            return task_factory.instantiate_connector(props, self._deps)


def _build_offsets_response(
    pairs: Iterable[tuple[Mapping[str, object], Mapping[str, object] | None]],
) -> ConnectorOffsets:
    return ConnectorOffsets(
        tuple(ConnectorOffset(partition=at, offset=offset) for at, offset in pairs)
    )


def _determine_source_or_sink(made: Connector) -> SourceOrSink:
    return SourceOrSink.SINK if isinstance(made, SinkConnector) else SourceOrSink.SOURCE


class _SinkOffsetRequests:
    """Handles requests to read or change the offsets of one sink connector."""

    def __init__(self, name: str, props: ResolvedConfig, deps: WorkerDeps) -> None:
        self._name = name
        self._props = props
        self._deps = deps
        self._group = connector_client_settings.get_sink_group_id(deps.config, props, name)
        self._time = _OffsetRequestDeadline(deps)

    def read_offsets(self) -> list[tuple[dict[str, object], dict[str, object]]]:
        kind = SourceOrSink.SINK
        with (
            self._open_admin_client() as admin,
            _replace_error_message(format_offset_read_failure(kind, self._name)),
        ):
            return connector_offset_json.format_sink_offsets(
                admin.fetch_offsets(self._group, REQUEST_TIMEOUT_S)
            )

    def modify_offsets(self, made: SinkConnector, given: OffsetPairs | None) -> bool:
        """Alter or reset the consumer group's offsets. Return True if the connector changed its
        externally managed offsets as well."""
        kind = SourceOrSink.SINK
        with self._open_admin_client() as admin:
            requested = (
                self._list_group_offsets(admin)
                if given is None
                else _parse_sink_offset_changes(given)
            )
            with _require_alter_offsets_support(self._name):
                done = bool(made.alter_offsets(self._props, requested))
            self._time.raise_if_expired(format_alter_offsets_timeout(kind, self._name))
            if given is None:
                self._reset_group_offsets(admin)
            else:
                self._alter_group_offsets(admin, requested)
        return done

    def _list_group_offsets(self, admin: GroupOffsetsClient) -> SinkOffsetChanges:
        with _replace_error_message(format_group_offsets_list_failure(self._name)):
            return dict.fromkeys(admin.fetch_offsets(self._group, self._time.remaining_s))

    def _reset_group_offsets(self, admin: GroupOffsetsClient) -> None:
        with self._translate_group_errors(OffsetChangeKind.RESET):
            admin.delete_group(self._group, self._time.remaining_s)

    def _alter_group_offsets(self, admin: GroupOffsetsClient, requested: SinkOffsetChanges) -> None:
        """Commit the new offsets, then delete the offsets of all partitions whose requested offset
        is None. Nothing is deleted if the commit fails."""
        negative = connector_offset_json.find_negative_offset(requested)
        if negative is not None:
            _LOG.error("offsets of %s: the offset of %s must not be negative", self._name, negative)
            raise ConnectError(format_offset_change_failure(SourceOrSink.SINK, self._name))
        kept = {each: offset for each, offset in requested.items() if offset is not None}
        gone = requested.keys() - kept.keys()
        with self._translate_group_errors(OffsetChangeKind.ALTER):
            if kept:
                admin.commit_offsets(self._group, kept, self._time.remaining_s)
            if gone:
                admin.delete_offsets(self._group, gone, self._time.remaining_s)

    @contextlib.contextmanager
    def _translate_group_errors(self, change: OffsetChangeKind) -> Iterator[None]:
        try:
            with _replace_error_message(
                format_group_offsets_change_failure(change, self._name),
                but=(ConsumerGroupInUseError,),
            ):
                yield
        except ConsumerGroupInUseError as error:
            raise _log_and_build_connect_error(
                format_consumer_group_in_use(change, self._name), error
            ) from error

    def _open_admin_client(self) -> contextlib.closing[GroupOffsetsClient]:
        plan = connector_client_settings.build_offsets_admin_config(
            self._deps.config, self._props, self._name
        )
        return contextlib.closing(self._deps.clients.create_group_offsets_client(plan))


class _SourceOffsetRequests:
    """Handles requests to change the offsets of one source connector.

    With exactly-once support, the caller must have fenced the connector's producers first.
    """

    def __init__(self, name: str, props: ResolvedConfig, deps: WorkerDeps) -> None:
        self._name = name
        self._props = props
        self._offsets = deps.offsets
        self._time = _OffsetRequestDeadline(deps)

    def modify_offsets(self, made: SourceConnector, given: OffsetPairs | None) -> bool:
        """Alter or reset the stored offsets. Return True if the connector changed its externally
        managed offsets as well."""
        known = self._list_stored_partitions()
        pairs: list[NormalizedSourceOffset] = [(each, None) for each in known]
        if given is not None:
            pairs = connector_offset_json.normalize_source_offsets(given)
        with _require_alter_offsets_support(self._name):
            asked = [SourceOffset(partition, offset) for partition, offset in pairs]
            done = bool(made.alter_offsets(self._props, asked))
        self._time.raise_if_expired(format_alter_offsets_timeout(SourceOrSink.SOURCE, self._name))
        if pairs:
            self._write_offsets(pairs)
        return done

    def _list_stored_partitions(self) -> Sequence[SourcePartition]:
        """Read the source partitions that have stored offsets.

        Required before every write, because the offset store reuses the existing record keys.
        """
        try:
            return self._offsets.connector_partitions(self._name, self._time.remaining_s)
        except ConnectError as error:
            if self._time.is_expired:
                raise _log_and_build_connect_error(
                    format_offset_read_timeout(self._name), error
                ) from error
            raise

    def _write_offsets(self, pairs: offset_store.OffsetPairs) -> None:
        try:
            offset_store.commit_offsets(
                self._offsets, self._name, pairs, timeout_s=self._time.remaining_s
            )
        except ConnectError as error:
            text = format_offset_change_failure(SourceOrSink.SOURCE, self._name)
            if self._time.is_expired:
                text = format_offset_write_timeout(self._name)
            raise _log_and_build_connect_error(text, error) from error


class _OffsetRequestDeadline:
    """Computes the time that remains until a request's deadline."""

    def __init__(self, deps: WorkerDeps) -> None:
        self._clock = deps.clock
        self._end = Deadline.after(REQUEST_TIMEOUT_S, now_s=deps.clock.now_s())

    @property
    def remaining_s(self) -> float:
        return self._end.remaining_s(self._clock.now_s())

    @property
    def is_expired(self) -> bool:
        return self._end.is_expired(self._clock.now_s())

    def raise_if_expired(self, otherwise: str) -> None:
        if self.is_expired:
            raise _log_and_build_connect_error(otherwise, None)


def _parse_sink_offset_changes(given: OffsetPairs) -> SinkOffsetChanges:
    try:
        return connector_offset_json.parse_sink_offsets(given)
    except InvalidSinkOffsetError as error:
        raise ConnectRestError(_BAD_REQUEST_STATUS, str(error)) from error


@contextlib.contextmanager
def _wrap_unexpected_errors(text: str) -> Iterator[None]:
    """Log unexpected exceptions, such as those raised by plugins, and raise a `ConnectError` with
    the message `text` instead."""
    try:
        yield
    except ConnectError:
        raise
    except Exception as error:
        raise _log_and_build_connect_error(text, error) from error


@contextlib.contextmanager
def _replace_error_message(
    text: str, *, but: tuple[type[ConnectError], ...] = ()
) -> Iterator[None]:
    """Replace the message of a `ConnectError` with Java's message `text`, and log the original
    error."""
    try:
        yield
    except ConnectError as error:
        if isinstance(error, but):
            raise
        raise _log_and_build_connect_error(text, error) from error


@contextlib.contextmanager
def _require_alter_offsets_support(name: str) -> Iterator[None]:
    try:
        yield
    except UnsupportedOperationError as error:
        raise _log_and_build_connect_error(
            format_offset_changes_unsupported(name), error
        ) from error


def _log_and_build_connect_error(text: str, cause: Exception | None) -> ConnectError:
    _LOG.error("%s%s", text, "" if cause is None else f": {cause}", exc_info=cause)
    return ConnectError(text)
