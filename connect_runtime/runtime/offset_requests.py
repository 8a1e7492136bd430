"""Viewing, altering and resetting the offsets of a connector (KIP-875), as the worker does it.

A source's are in the offset store, a sink's are those of its consumer group. That a connector may
have its offsets changed, because it is stopped, was found before. Java: Worker.connectorOffsets,
modifyConnectorOffsets.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence

from connect_runtime.api import connector, errors, records
from connect_runtime.base import deadline as base_deadline
from connect_runtime.base import ids
from connect_runtime.core.offsets import sink_offsets, source_offsets, told
from connect_runtime.core.state import cluster_config, offset_records
from connect_runtime.core.task import client_settings
from connect_runtime.ports import clients, herder
from connect_runtime.runtime import task_bodies
from connect_runtime.runtime.stores import offset_store

_LOG = logging.getLogger(__name__)
_BAD_REQUEST = 400

LIMIT_S = 90.0
"""Of one request, the connector's own part included: as long as REST waits for it in Java."""

Given = Sequence[tuple[Mapping[str, object], "Mapping[str, object] | None"]]
Wanted = Mapping[ids.TopicPartition, "int | None"]


class OffsetRequests:
    """Holds no state: any thread may ask, and waits, for up to `LIMIT_S` or what a connector's own
    `alter_offsets` takes."""

    def __init__(self, around: task_bodies.Surroundings) -> None:
        self._around = around

    def read(self, name: str, config: cluster_config.RawConfig) -> herder.Offsets:
        """All offsets of the connector. Raises `ConnectError`, with Java's words."""
        props = self._around.resolved(config)
        made = self._instance(name, props)
        with _explained(told.not_read(_kind(made), name)):
            if isinstance(made, connector.SinkConnector):
                return _shown(_SinkOffsets(name, props, self._around).read())
            return _shown(self._around.offsets.read_all(name, LIMIT_S))

    def modify(
        self, name: str, config: cluster_config.RawConfig, offsets: Given | None
    ) -> herder.OffsetsModified:
        """Alter these offsets, or with None reset all, and say so.

        The connector's `alter_offsets` is asked first; it may refuse. Raises `Refusal` 400 for a
        sink's offsets that are none, else `ConnectError`; with Java's words.
        """
        props = self._around.resolved(config)
        made = self._instance(name, props)
        change = told.Change.RESET if offsets is None else told.Change.ALTER
        with _explained(told.not_changed(_kind(made), name)):
            if isinstance(made, connector.SinkConnector):
                done = _SinkOffsets(name, props, self._around).modify(made, offsets)
            else:
                assert isinstance(made, connector.SourceConnector), made
                done = _SourceOffsets(name, props, self._around).modify(made, offsets)
        _LOG.info("offsets of connector %s: %s", name, change.done)
        return herder.OffsetsModified(told.changed(change, by_connector_too=done))

    def _instance(self, name: str, props: task_bodies.Resolved) -> connector.Connector:
        """Whatever else is configured: it may run elsewhere, by other means than ours."""
        with _explained(f"creating connector {name}, to ask it about its offsets"):
            return task_bodies.instance(props, self._around)


def _shown(
    pairs: Iterable[tuple[Mapping[str, object], Mapping[str, object] | None]],
) -> herder.Offsets:
    return herder.Offsets(
        tuple(herder.PartitionOffset(partition=at, offset=offset) for at, offset in pairs)
    )


def _kind(made: connector.Connector) -> told.Kind:
    return told.Kind.SINK if isinstance(made, connector.SinkConnector) else told.Kind.SOURCE


class _SinkOffsets:
    """Those of one connector's group."""

    def __init__(
        self, name: str, props: task_bodies.Resolved, around: task_bodies.Surroundings
    ) -> None:
        self._name = name
        self._props = props
        self._around = around
        self._group = client_settings.sink_group(around.config, props, name)
        self._time = _Time(around)

    def read(self) -> list[tuple[dict[str, object], dict[str, object]]]:
        kind = told.Kind.SINK
        with self._admin() as admin, _instead(told.not_read(kind, self._name)):
            return sink_offsets.shown(admin.fetch(self._group, LIMIT_S))

    def modify(self, made: connector.SinkConnector, given: Given | None) -> bool:
        """Whether the connector had a part in it."""
        kind = told.Kind.SINK
        with self._admin() as admin:
            wanted = self._all(admin) if given is None else _parsed(given)
            with _supported(self._name):
                done = bool(made.alter_offsets(self._props, wanted))
            self._time.check(told.connector_too_slow(kind, self._name))
            if given is None:
                self._reset(admin)
            else:
                self._alter(admin, wanted)
        return done

    def _all(self, admin: clients.GroupOffsets) -> Wanted:
        with _instead(told.not_listed(self._name)):
            return dict.fromkeys(admin.fetch(self._group, self._time.left_s))

    def _reset(self, admin: clients.GroupOffsets) -> None:
        with self._refused(told.Change.RESET):
            admin.delete(self._group, self._time.left_s)

    def _alter(self, admin: clients.GroupOffsets, wanted: Wanted) -> None:
        """What fails ends it: then nothing is taken away."""
        negative = sink_offsets.first_negative(wanted)
        if negative is not None:
            _LOG.error("offsets of %s: %s may not be below 0", self._name, negative)
            raise errors.ConnectError(told.not_changed(told.Kind.SINK, self._name))
        kept = {each: offset for each, offset in wanted.items() if offset is not None}
        gone = wanted.keys() - kept.keys()
        with self._refused(told.Change.ALTER):
            if kept:
                admin.commit(self._group, kept, self._time.left_s)
            if gone:
                admin.forget(self._group, gone, self._time.left_s)

    @contextlib.contextmanager
    def _refused(self, change: told.Change) -> Iterator[None]:
        try:
            with _instead(told.group_refused(change, self._name), but=(clients.GroupInUseError,)):
                yield
        except clients.GroupInUseError as error:
            raise _logged(told.group_in_use(change, self._name), error) from error

    def _admin(self) -> contextlib.closing[clients.GroupOffsets]:
        plan = client_settings.offsets_admin(self._around.config, self._props, self._name)
        return contextlib.closing(self._around.clients.group_offsets(plan))


class _SourceOffsets:
    """Those of one connector in the store. Under exactly-once its producers were fenced before."""

    def __init__(
        self, name: str, props: task_bodies.Resolved, around: task_bodies.Surroundings
    ) -> None:
        self._name = name
        self._props = props
        self._offsets = around.offsets
        self._time = _Time(around)

    def modify(self, made: connector.SourceConnector, given: Given | None) -> bool:
        """Whether the connector had a part in it."""
        known = self._partitions()
        pairs: list[source_offsets.Normal] = [(each, None) for each in known]
        if given is not None:
            pairs = source_offsets.normalised(given)
        with _supported(self._name):
            asked = [records.SourceOffset(partition, offset) for partition, offset in pairs]
            done = bool(made.alter_offsets(self._props, asked))
        self._time.check(told.connector_too_slow(told.Kind.SOURCE, self._name))
        if pairs:
            self._write(pairs)
        return done

    def _partitions(self) -> Sequence[offset_records.Partition]:
        """Read also where none is asked for: it is by what is stored that keys are chosen."""
        try:
            return self._offsets.partitions(self._name, self._time.left_s)
        except errors.ConnectError as error:
            if self._time.is_up:
                raise _logged(told.topic_too_slow(self._name), error) from error
            raise

    def _write(self, pairs: offset_store.Pairs) -> None:
        try:
            offset_store.commit(self._offsets, self._name, pairs, timeout_s=self._time.left_s)
        except errors.ConnectError as error:
            text = told.not_changed(told.Kind.SOURCE, self._name)
            if self._time.is_up:
                text = told.write_too_slow(self._name)
            raise _logged(text, error) from error


class _Time:
    """What is left of a request's."""

    def __init__(self, around: task_bodies.Surroundings) -> None:
        self._clock = around.clock
        self._end = base_deadline.Deadline.after(LIMIT_S, now_s=around.clock.now_s())

    @property
    def left_s(self) -> float:
        return self._end.left_s(self._clock.now_s())

    @property
    def is_up(self) -> bool:
        return self._end.passed(self._clock.now_s())

    def check(self, otherwise: str) -> None:
        if self.is_up:
            raise _logged(otherwise, None)


def _parsed(given: Given) -> Wanted:
    try:
        return sink_offsets.parse(given)
    except sink_offsets.InvalidOffset as error:
        raise herder.Refusal(_BAD_REQUEST, str(error)) from error


@contextlib.contextmanager
def _explained(text: str) -> Iterator[None]:
    """What has no words for users, for example of a plugin's making, gets these."""
    try:
        yield
    except errors.ConnectError:
        raise
    except Exception as error:
        raise _logged(text, error) from error


@contextlib.contextmanager
def _instead(text: str, *, but: tuple[type[errors.ConnectError], ...] = ()) -> Iterator[None]:
    """Java says this, whatever the cluster said, which is in the log."""
    try:
        yield
    except errors.ConnectError as error:
        if isinstance(error, but):
            raise
        raise _logged(text, error) from error


@contextlib.contextmanager
def _supported(name: str) -> Iterator[None]:
    try:
        yield
    except errors.UnsupportedOperationError as error:
        raise _logged(told.unsupported(name), error) from error


def _logged(text: str, cause: Exception | None) -> errors.ConnectError:
    _LOG.error("%s%s", text, "" if cause is None else f": {cause}", exc_info=cause)
    return errors.ConnectError(text)
