"""Connect's transforms (`transforms`, `predicates`) as a copy applies them to records.

They are classes of the user's, written for `connect_runtime.api.transform`; they see what they
would in front of a ByteArrayConverter: keys, values and headers as bytes, and the mirror's topic.
Where a record stands was decided before: topic, partition and timestamp are not theirs to change.
Java: TransformationChain, ConnectorConfig.transformationStages.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from connect_runtime.api import config_def, config_types, errors, schema, transform
from connect_runtime.api import headers as header_list
from connect_runtime.api import records as connect_records
from mm2.core.copy import setup
from mm2.formats import records

TRANSFORMS, PREDICATES = "transforms", "predicates"
LISTS = (TRANSFORMS, PREDICATES)
FAMILIES = (f"{TRANSFORMS}.", f"{PREDICATES}.")
_TYPE, _PREDICATE, _NEGATE = "type", "predicate", "negate"


class ChainError(errors.ConfigError):
    """A chain that cannot be made; `key` is the one to blame."""

    def __init__(self, key: str, text: str) -> None:
        super().__init__(f"{key} {text}")
        self.key = key


def settings(props: Mapping[str, str]) -> dict[str, str]:
    """The keys of a configuration that are about transforms, if it has any; may hold secrets."""
    if not _aliases(props, TRANSFORMS):
        return {}
    return {key: props[key] for key in sorted(props) if key in LISTS or key.startswith(FAMILIES)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    made: transform.Transformation
    predicate: transform.Predicate | None
    negate: bool

    @property
    def deterministic(self) -> bool:
        return self.made.deterministic and (self.predicate is None or self.predicate.deterministic)

    def apply(self, record: connect_records.SourceRecord) -> connect_records.SourceRecord | None:
        if self.predicate is not None and bool(self.predicate.test(record)) == self.negate:
            return record
        return self.made.apply(record)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """One copy's, configured. `name` tells chains apart, and holds no secret."""

    name: str
    steps: tuple[_Step, ...] = field(repr=False)

    @property
    def deterministic(self) -> bool:
        """Do all transforms, and the predicates that they are chosen by, say so of themselves?"""
        return all(each.deterministic for each in self.steps)

    def of(self, where: setup.PartitionSetup) -> PartitionTransform:
        return PartitionTransform(self, topic=where.remote_topic, partition=where.partition)

    def close(self) -> None:
        for each in self.steps:
            each.made.close()
            if each.predicate is not None:
                each.predicate.close()


def chain(
    props: Mapping[str, str], *, load: config_types.LoadClass = config_types.imported_class
) -> Chain | None:
    """None without transforms. Raises `ChainError`.

    `load`: `config_types.load_class` where the classes were approved before, by the operator's file
    or by the worker that hands the copy out.
    """
    found = settings(props)
    if not found:
        return None
    predicates = {
        alias: _made(found, f"{PREDICATES}.{alias}.", base=transform.Predicate, load=load)
        for alias in _aliases(found, PREDICATES)
    }
    aliases = _aliases(found, TRANSFORMS)
    steps = tuple(_step(found, alias, predicates, load) for alias in aliases)
    told = ", ".join(
        f"{alias} ({config_types.class_name(type(step.made))})"
        for alias, step in zip(aliases, steps, strict=True)
    )
    digest = hashlib.blake2b(json.dumps(found).encode(), digest_size=4).hexdigest()
    return Chain(name=f"{told}, settings {digest}", steps=steps)


def _step(
    found: Mapping[str, str],
    alias: str,
    predicates: Mapping[str, transform.Predicate],
    load: config_types.LoadClass,
) -> _Step:
    prefix = f"{TRANSFORMS}.{alias}."
    made = _made(found, prefix, base=transform.Transformation, load=load)
    wanted = found.get(f"{TRANSFORMS}.{alias}.{_PREDICATE}", "").strip()
    if wanted and wanted not in predicates:
        raise ChainError(f"{TRANSFORMS}.{alias}.{_PREDICATE}", f"names no predicate: {wanted}")
    key = f"{TRANSFORMS}.{alias}.{_NEGATE}"
    negate = found.get(key, "false").strip().lower()
    if negate not in ("true", "false"):
        raise ChainError(key, f"is {negate}: write true or false")
    return _Step(made=made, predicate=predicates.get(wanted), negate=negate == "true")


def _aliases(props: Mapping[str, str], key: str) -> list[str]:
    named = (each.strip() for each in props.get(key, "").split(","))
    return list(dict.fromkeys(each for each in named if each))


def _made(
    found: Mapping[str, str], prefix: str, *, base: type[Any], load: config_types.LoadClass
) -> Any:
    own = {
        key.removeprefix(prefix): value
        for key, value in found.items()
        if key.startswith(prefix) and key not in (prefix + _PREDICATE, prefix + _NEGATE)
    }
    of = _class_of(prefix + _TYPE, own.get(_TYPE, "").strip(), base=base, load=load)
    try:
        made = of()
        _check(made.config().validate(own), prefix)
        made.configure(own)
    except ChainError:
        raise
    except Exception as error:  # the user's code may raise anything
        told = f"cannot be used as it is configured: {type(error).__name__}: {error}"
        raise ChainError(prefix + _TYPE, told) from error
    return made


def _check(values: Sequence[config_def.ConfigValue], prefix: str) -> None:
    for value in values:
        if value.error_messages:
            raise ChainError(prefix + value.name, "; ".join(value.error_messages))


def _class_of(key: str, name: str, *, base: type[Any], load: config_types.LoadClass) -> type[Any]:
    if not name:
        raise ChainError(key, "is missing: a class, such as package.module:Class")
    try:
        found = load(name)
    except LookupError as error:
        cause = error.__cause__
        told = str(error) if cause is None or str(cause) in str(error) else f"{error}: {cause}"
        raise ChainError(key, f"cannot be used: {told}") from error
    if not issubclass(found, base):
        raise ChainError(key, f"cannot be used: {name} is no {base.__name__}")
    return found


class PartitionTransform:
    """A chain for one partition's records: an `opening.Transform`."""

    def __init__(self, of: Chain, *, topic: str, partition: int) -> None:
        self.name = of.name
        self.deterministic = of.deterministic
        self._steps = of.steps
        self._topic = topic
        self._partition = partition

    def __call__(self, fields: records.Fields, timestamp_ms: int) -> records.Fields | None:
        """Raises `DataError`, and whatever the steps raise."""
        before = found = self._record(fields, timestamp_ms)
        for step in self._steps:
            became = step.apply(found)
            if became is None:
                return None
            found = became
        for part in ("topic", "kafka_partition", "timestamp"):
            was, now = getattr(before, part), getattr(found, part)
            if was != now:
                raise errors.DataError(f"it changes the {part} from {was} to {now}: mm2 cannot")
        return records.Fields(
            key=_bytes("key", found.key),
            value=_bytes("value", found.value),
            headers=tuple(
                (each.key.encode(), _bytes(f"header {each.key}", each.value))
                for each in found.headers
            ),
        )

    def _record(self, fields: records.Fields, timestamp_ms: int) -> connect_records.SourceRecord:
        described = schema.OPTIONAL_BYTES_SCHEMA
        return connect_records.SourceRecord(
            topic=self._topic,
            kafka_partition=self._partition,
            key_schema=described,
            key=fields.key,
            value_schema=described,
            value=fields.value,
            timestamp=timestamp_ms if timestamp_ms >= 0 else None,
            headers=header_list.Headers(
                header_list.Header(key.decode(), value, described) for key, value in fields.headers
            ),
        )


def _bytes(what: str, value: object) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    raise errors.DataError(f"it makes the {what} a {type(value).__name__}: only bytes are written")
