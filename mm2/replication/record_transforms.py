"""Applies Connect transforms and predicates (`transforms`, `predicates`) to replicated records.

Transforms and predicates are user classes written for `connect_runtime.api.transformation`. They
receive records as converted by a ByteArrayConverter: keys, values and headers are bytes, and the
topic is the mirror topic. Topic, partition and timestamp cannot be changed. Java:
`TransformationChain`, `ConnectorConfig.transformationStages`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from connect_runtime.api import config_types, schema
from connect_runtime.api.config_def import ConfigValue
from connect_runtime.api.config_types import ClassLoader
from connect_runtime.api.errors import ConfigError, DataError
from connect_runtime.api.records import Header, Headers, SourceRecord
from connect_runtime.api.transformation import Predicate, Transformation
from mm2.formats.record_codec import RecordFields
from mm2.replication.partition_setup import PartitionSetup

TRANSFORMS_KEY, PREDICATES_KEY = "transforms", "predicates"
LIST_KEYS = (TRANSFORMS_KEY, PREDICATES_KEY)
KEY_PREFIXES = (f"{TRANSFORMS_KEY}.", f"{PREDICATES_KEY}.")
_TYPE, _PREDICATE, _NEGATE = "type", "predicate", "negate"
_NOT_UTF8 = "surrogateescape"
"""Error handler (`errors=`) for decoding and encoding header names. It preserves names that are not
valid UTF-8."""


class TransformChainError(ConfigError):
    """A transform chain cannot be created. `key` is the configuration key with the problem."""

    def __init__(self, key: str, text: str) -> None:
        super().__init__(f"{key} {text}")
        self.key = key


def select_transform_keys(props: Mapping[str, str]) -> dict[str, str]:
    """Select the configuration keys of transforms and predicates; return {} if no transforms are
    configured. The values may contain secrets."""
    if not _parse_alias_list(props, TRANSFORMS_KEY):
        return {}
    return {
        key: props[key] for key in sorted(props) if key in LIST_KEYS or key.startswith(KEY_PREFIXES)
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _TransformStep:
    """One transform of a chain, with its predicate."""

    plugin: Transformation
    predicate: Predicate | None
    negate: bool

    @property
    def deterministic(self) -> bool:
        return self.plugin.deterministic and (
            self.predicate is None or self.predicate.deterministic
        )

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        if self.predicate is not None and bool(self.predicate.test(record)) == self.negate:
            return record
        return self.plugin.apply(record)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformChain:
    """A configured transform chain. `name` identifies the chain and contains no secrets."""

    name: str
    steps: tuple[_TransformStep, ...] = field(repr=False)

    @property
    def deterministic(self) -> bool:
        """Return True if all transforms and predicates declare that they are deterministic."""
        return all(each.deterministic for each in self.steps)

    def bind_partition(self, setup: PartitionSetup) -> PartitionTransform:
        """Return a transform that applies the chain to the records of one partition."""
        return PartitionTransform(self, topic=setup.remote_topic, partition=setup.partition)

    def close(self) -> None:
        """Close all transforms and predicates."""
        for each in self.steps:
            each.plugin.close()
            if each.predicate is not None:
                each.predicate.close()


def create_chain(
    props: Mapping[str, str], *, load: ClassLoader = config_types.find_imported_class
) -> TransformChain | None:
    """Create the transform chain of a configuration. Return None if no transforms are
    configured. Raises `TransformChainError`.

    `load` finds a class by name. Pass `config_types.load_class`, which imports classes, only if the
    classes are trusted: named in the operator's configuration file or allowed by the worker.
    """
    found = select_transform_keys(props)
    if not found:
        return None
    predicates = {
        alias: _create_plugin(found, f"{PREDICATES_KEY}.{alias}.", base=Predicate, load=load)
        for alias in _parse_alias_list(found, PREDICATES_KEY)
    }
    aliases = _parse_alias_list(found, TRANSFORMS_KEY)
    steps = tuple(_create_step(found, alias, predicates, load) for alias in aliases)
    message = ", ".join(
        f"{alias} ({config_types.get_class_name(type(step.plugin))})"
        for alias, step in zip(aliases, steps, strict=True)
    )
    digest = hashlib.blake2b(json.dumps(found).encode(), digest_size=4).hexdigest()
    return TransformChain(name=f"{message}, settings {digest}", steps=steps)


def _create_step(
    found: Mapping[str, str],
    alias: str,
    predicates: Mapping[str, Predicate],
    load: ClassLoader,
) -> _TransformStep:
    prefix = f"{TRANSFORMS_KEY}.{alias}."
    plugin = _create_plugin(found, prefix, base=Transformation, load=load)
    wanted = found.get(f"{TRANSFORMS_KEY}.{alias}.{_PREDICATE}", "").strip()
    if wanted and wanted not in predicates:
        raise TransformChainError(
            f"{TRANSFORMS_KEY}.{alias}.{_PREDICATE}", f"names an unknown predicate: {wanted}"
        )
    key = f"{TRANSFORMS_KEY}.{alias}.{_NEGATE}"
    negate = found.get(key, "false").strip().lower()
    if negate not in ("true", "false"):
        raise TransformChainError(key, f"is {negate}, must be true or false")
    return _TransformStep(plugin=plugin, predicate=predicates.get(wanted), negate=negate == "true")


def _parse_alias_list(props: Mapping[str, str], key: str) -> list[str]:
    named = (each.strip() for each in props.get(key, "").split(","))
    return list(dict.fromkeys(each for each in named if each))


def _create_plugin(
    found: Mapping[str, str], prefix: str, *, base: type[Any], load: ClassLoader
) -> Any:
    own = {
        key.removeprefix(prefix): value
        for key, value in found.items()
        if key.startswith(prefix) and key not in (prefix + _PREDICATE, prefix + _NEGATE)
    }
    of = _load_plugin_class(prefix + _TYPE, own.get(_TYPE, "").strip(), base=base, load=load)
    try:
        plugin = of()
        _raise_if_values_invalid(plugin.config().validate(own), prefix)
        plugin.configure(own)
    except TransformChainError:
        raise
    except Exception as error:  # the user's code may raise anything
        message = f"cannot be configured: {type(error).__name__}: {error}"
        raise TransformChainError(prefix + _TYPE, message) from error
    return plugin


def _raise_if_values_invalid(values: Sequence[ConfigValue], prefix: str) -> None:
    for value in values:
        if value.error_messages:
            raise TransformChainError(prefix + value.name, "; ".join(value.error_messages))


def _load_plugin_class(key: str, name: str, *, base: type[Any], load: ClassLoader) -> type[Any]:
    if not name:
        raise TransformChainError(
            key, "is missing: set it to a class, such as package.module:Class"
        )
    try:
        found = load(name)
    except LookupError as error:
        cause = error.__cause__
        message = str(error) if cause is None or str(cause) in str(error) else f"{error}: {cause}"
        raise TransformChainError(key, f"cannot be used: {message}") from error
    if not issubclass(found, base):
        raise TransformChainError(key, f"cannot be used: {name} is not a {base.__name__}")
    return found


class PartitionTransform:
    """A transform chain applied to the records of one partition. Implements
    `outbound_batches.RecordTransform`."""

    def __init__(self, chain: TransformChain, *, topic: str, partition: int) -> None:
        self.name = chain.name
        self.deterministic = chain.deterministic
        self._steps = chain.steps
        self._topic = topic
        self._partition = partition

    def __call__(self, fields: RecordFields, timestamp_ms: int) -> RecordFields | None:
        """Apply all transforms. Raises `DataError` for an unsupported change, and does not catch
        exceptions of the transforms."""
        before = found = self._create_source_record(fields, timestamp_ms)
        for step in self._steps:
            result = step.apply(found)
            if result is None:
                return None
            found = result
        for part in ("topic", "kafka_partition", "timestamp"):
            was, now = getattr(before, part), getattr(found, part)
            if was != now:
                raise DataError(
                    f"transform changed the {part} from {was} to {now}, which mm2 does not support"
                )
        return RecordFields(
            key=_require_bytes("key", found.key),
            value=_require_bytes("value", found.value),
            headers=tuple(
                (
                    each.key.encode(errors=_NOT_UTF8),
                    _require_bytes(f"header {each.key}", each.value),
                )
                for each in found.headers
            ),
        )

    def _create_source_record(self, fields: RecordFields, timestamp_ms: int) -> SourceRecord:
        described = schema.OPTIONAL_BYTES_SCHEMA
        return SourceRecord(
            topic=self._topic,
            kafka_partition=self._partition,
            key_schema=described,
            key=fields.key,
            value_schema=described,
            value=fields.value,
            timestamp=timestamp_ms if timestamp_ms >= 0 else None,
            headers=Headers(
                Header(key.decode(errors=_NOT_UTF8), value, described)
                for key, value in fields.headers
            ),
        )


def _require_bytes(what: str, value: object) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    raise DataError(
        f"transform changed the {what} to {type(value).__name__}: only bytes are supported"
    )
