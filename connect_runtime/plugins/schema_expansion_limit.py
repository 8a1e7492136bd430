"""Limits the data that schemas add to a record: defaults, and fields that the record lacks.

A schema is written once but applies to any number of values, and defaults may be nested. Without a
limit, a record of a few kilobytes could expand to gigabytes.
"""

from __future__ import annotations

import decimal
from dataclasses import dataclass
from typing import Any

from connect_runtime.api.errors import DataError
from connect_runtime.api.structs import Struct

MAX_ADDED_VALUES = 100_000
"""Maximum number of values that schemas add to a record. When a record is read, the maximum is
higher by one value per byte of the record."""
MAX_ADDED_BYTES = 4 * 1024 * 1024
"""Maximum total length of the strings, bytes, decimals and field names that schemas add to a
record. When a record is read, the maximum is higher by `ADDED_BYTES_PER_RECORD_BYTE` per byte of
the record."""
ADDED_BYTES_PER_RECORD_BYTE = 32
"""Increase of `MAX_ADDED_BYTES` per byte of a record that is read. `MAX_ADDED_VALUES` increases by
one value per byte. For absent fields whose names have up to 32 characters, the limit on the number
of values therefore applies first."""


@dataclass(slots=True)
class SchemaExpansionLimit:
    """Limits the data that a schema adds to one record (default values, names of absent fields), or
    to the defaults of one schema.

    Raises `DataError` as soon as a limit is exceeded. A default of a fixed-size type, such as an
    integer, is not counted, because it is about as large as the null that it replaces.
    """

    values: int = 0
    """Number of added values."""
    _bytes: int = 0
    _max_values: int = MAX_ADDED_VALUES
    _max_bytes: int = MAX_ADDED_BYTES

    def start_record(self, record_bytes: int = 0) -> None:
        """Start counting for another record or schema. `record_bytes` is its size; 0 if unknown."""
        self.values = 0
        self._bytes = 0
        self._max_values = MAX_ADDED_VALUES + record_bytes
        self._max_bytes = MAX_ADDED_BYTES + ADDED_BYTES_PER_RECORD_BYTE * record_bytes

    def add_absent_field(self, name: str) -> None:
        """Count a field that is absent from a struct. The field's name is not in the record, but it
        is in all text that is later formatted from the struct."""
        self._count_values_and_bytes(1, len(name))

    def add_default_value(self, default: Any) -> None:
        """Count a default that replaces null, including all nested values."""
        if not isinstance(default, (list, tuple, dict, Struct)):
            self._count_values_and_bytes(0, _get_variable_length(default))
            return
        pending = [default]
        while pending:
            value = pending.pop()
            self._count_values_and_bytes(1, _get_variable_length(value))
            if isinstance(value, (list, tuple)):
                pending += value
            elif isinstance(value, dict):
                pending += value.keys()
                pending += value.values()
            elif isinstance(value, Struct):
                for each in value.schema.fields:
                    self._count_values_and_bytes(0, len(each.name))
                    pending.append(value.get_without_default(each.name))

    def _count_values_and_bytes(self, values: int, size: int) -> None:
        self.values += values
        self._bytes += size
        if self.values > self._max_values:
            raise _create_limit_error(f"{self._max_values:,} values")
        if self._bytes > self._max_bytes:
            raise _create_limit_error(f"{self._max_bytes:,} bytes")


def _get_variable_length(value: Any) -> int:
    if isinstance(value, (str, bytes)):
        return len(value)
    return len(str(value)) if isinstance(value, decimal.Decimal) else 0


def _create_limit_error(limit: str) -> DataError:
    return DataError(
        f"Default values and absent fields of the schema add more than {limit} to the data: "
        "write smaller records, or use a schema with smaller defaults, or with fewer optional "
        "fields or shorter field names"
    )
