"""Offsets of a source connector as users give them, made what the offset store would give back.

A connector that checks them sees what its tasks will read. Java: OffsetUtils.validateFormat,
Worker.normalizeSourceConnectorOffsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from connect_runtime.api import errors
from connect_runtime.core.state import java_map_order, json_bytes, offset_records

Given = tuple["Mapping[str, object] | None", "Mapping[str, object] | None"]
Normal = tuple["offset_records.Partition | None", "offset_records.Offset | None"]


def normalised(given: Iterable[Given]) -> list[Normal]:
    """Through JSON and back, the fields in the order that Java's HashMap has.

    A partition may be nothing (null), and so may an offset: then it is forgotten. Raises
    `DataError` for what is not flat.
    """
    return [(_normal(partition), _normal(offset)) for partition, offset in given]


def _normal(value: Mapping[str, object] | None) -> dict[str, offset_records.Primitive] | None:
    if value is None:
        return None
    for name, each in value.items():
        wrong = _no_primitive(each)
        if wrong is not None:
            raise errors.DataError(
                "Offsets may only contain primitive types as values, but field "
                f"{name} contains {wrong}"
            )
    ordered = java_map_order.ordered(cast(Mapping[str, offset_records.Primitive], value))
    return cast(dict[str, offset_records.Primitive], json_bytes.decode(json_bytes.encode(ordered)))


def _no_primitive(value: object) -> str | None:
    """What Java calls a value that an offset may not hold; None for one that it may."""
    match value:
        case int() if not json_bytes.INT64_MIN <= value <= json_bytes.INT64_MAX:
            return "class java.math.BigInteger"
        case None | bool() | int() | float() | str() | bytes():
            return None
        case Mapping():
            return "MAP"
        case list() | tuple():
            return "ARRAY"
        case _:
            return f"class {type(value).__qualname__}"
