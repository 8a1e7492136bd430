"""Fields of Kafka's `Schema`, as far as MirrorMaker 2's own records are made of them.

Big-endian integers, and strings of UTF-8 behind an INT16 of their length in bytes. As in Java,
what stands behind the last field is not looked at, and bytes that are no UTF-8 become U+FFFD.
"""

from __future__ import annotations

import struct

STRING_BYTES_MAX = 32_767

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")


class MalformedRecordError(ValueError):
    """Bytes that are no record of the kind looked for; Java's `SchemaException`."""


class UnknownVersionError(MalformedRecordError):
    """A record written by a release that this one does not know."""


class TooLongError(ValueError):
    """A text that no field can hold."""


def string(text: str) -> bytes:
    """STRING. Raises `TooLongError`. A lone surrogate becomes "?", as in Java."""
    data = text.encode(errors="replace")
    if len(data) > STRING_BYTES_MAX:
        raise TooLongError(
            f"a text of {len(data)} bytes, {text[:40]!r}…: {STRING_BYTES_MAX} are the most"
        )
    return _INT16.pack(len(data)) + data


def int16(value: int) -> bytes:
    return _INT16.pack(value)


def int32(value: int) -> bytes:
    return _INT32.pack(value)


def int64(value: int) -> bytes:
    return _INT64.pack(value)


class Reader:
    """Takes one field after the other. All methods raise `MalformedRecordError`."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def int16(self) -> int:
        return self._number(_INT16)

    def int32(self) -> int:
        return self._number(_INT32)

    def int64(self) -> int:
        return self._number(_INT64)

    def string(self) -> str:
        size = self.int16()
        if not 0 <= size <= len(self._data) - self._at:
            left = len(self._data) - self._at
            raise MalformedRecordError(f"a text of {size} bytes where {left} are left")
        self._at += size
        return self._data[self._at - size : self._at].decode(errors="replace")

    def version(self, known: int) -> None:
        """INT16. Raises `UnknownVersionError` unless it is `known`.

        Java asserts it, so that in production it reads any version as if it were the one it knows.
        """
        found = self.int16()
        if found != known:
            raise UnknownVersionError(f"version {found}, where {known} is known")

    def _number(self, kind: struct.Struct) -> int:
        try:
            (value,) = kind.unpack_from(self._data, self._at)
        except struct.error:
            left = len(self._data) - self._at
            raise MalformedRecordError(
                f"a number of {kind.size} bytes where {left} are left"
            ) from None
        self._at += kind.size
        assert isinstance(value, int)
        return value
