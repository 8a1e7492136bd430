"""Encodes and decodes primitive field types: integers, strings and varints.

Integers are big-endian; strings are UTF-8 after an INT16 length in bytes (Kafka's `Schema`). As in
Java, bytes after the last field are ignored, and invalid UTF-8 becomes U+FFFD. Varints have the
format of `ByteUtils.writeUnsignedVarint` and `writeVarlong`.
"""

from __future__ import annotations

import struct

STRING_BYTES_MAX = 32_767

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")


class MalformedRecordError(ValueError):
    """The bytes are not a valid record of the expected kind (Java: `SchemaException`)."""


class UnknownRecordVersionError(MalformedRecordError):
    """The record has a version that this release does not support."""


class StringTooLongError(ValueError):
    """A string is too long for a STRING field, whose length is an INT16."""


def encode_string(text: str) -> bytes:
    """Encode a STRING field. Lone surrogates become "?", as in Java. Raises
    `StringTooLongError`."""
    data = text.encode(errors="replace")
    if len(data) > STRING_BYTES_MAX:
        raise StringTooLongError(
            f"the string {text[:40]!r}… has {len(data)} bytes, but the maximum is "
            f"{STRING_BYTES_MAX}"
        )
    return _INT16.pack(len(data)) + data


def encode_int16(value: int) -> bytes:
    return _INT16.pack(value)


def encode_int32(value: int) -> bytes:
    return _INT32.pack(value)


def encode_int64(value: int) -> bytes:
    return _INT64.pack(value)


class FieldReader:
    """Reads the fields of a record one after the other. All methods raise `MalformedRecordError` if
    the data ends too early or is invalid."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def read_int16(self) -> int:
        return self._read_number(_INT16)

    def read_int32(self) -> int:
        return self._read_number(_INT32)

    def read_int64(self) -> int:
        return self._read_number(_INT64)

    def read_string(self) -> str:
        size = self.read_int16()
        if not 0 <= size <= len(self._data) - self._at:
            left = len(self._data) - self._at
            raise MalformedRecordError(f"a string of {size} bytes, but only {left} bytes are left")
        self._at += size
        return self._data[self._at - size : self._at].decode(errors="replace")

    def check_version(self, expected: int) -> None:
        """Read a record's version (INT16). Raises `UnknownRecordVersionError` unless it is
        `expected`. Java checks the version only with an `assert`, so production workers read a
        record of any version as if it had the expected one."""
        found = self.read_int16()
        if found != expected:
            raise UnknownRecordVersionError(
                f"unsupported record version {found}, expected {expected}"
            )

    def _read_number(self, kind: struct.Struct) -> int:
        try:
            (value,) = kind.unpack_from(self._data, self._at)
        except struct.error:
            left = len(self._data) - self._at
            raise MalformedRecordError(
                f"an integer of {kind.size} bytes, but only {left} bytes are left"
            ) from None
        self._at += kind.size
        assert isinstance(value, int)
        return value


_SIGN_SHIFT = 63
_U64 = (1 << 64) - 1


def append_unsigned_varint(out: bytearray, value: int) -> None:
    """Append an unsigned varint: 7 bits per byte, lowest first, with the high bit set on all bytes
    but the last. `value` is in [0, 2^64)."""
    assert 0 <= value <= _U64, value
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)


def append_varint(out: bytearray, value: int) -> None:
    """Append a zigzag-encoded varint; `value` is in [-2^63, 2^63)."""
    append_unsigned_varint(out, ((value << 1) ^ (value >> _SIGN_SHIFT)) & _U64)


def read_unsigned_varint(data: bytes, at: int) -> tuple[int, int]:
    """Read an unsigned varint and return it with the position after it.

    Raises `IndexError` if the data ends too early and `ValueError` for more than 64 bits.
    """
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > _SIGN_SHIFT:
            raise ValueError(f"varint of more than 64 bits before byte {at}")
    if value > _U64:
        raise ValueError(f"varint of more than 64 bits before byte {at}")
    return value, at


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Read a zigzag-encoded varint and return it with the position after it."""
    value, at = read_unsigned_varint(data, at)
    return (value >> 1) ^ -(value & 1), at
