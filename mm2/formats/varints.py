"""Unsigned and zigzag varints, as Kafka writes them (`ByteUtils.writeUnsignedVarint`,
`writeVarlong`)."""

from __future__ import annotations

_SIGN_SHIFT = 63
_U64 = (1 << 64) - 1


def append_unsigned(out: bytearray, value: int) -> None:
    """7 bits a byte, lowest first, the high bit set on all but the last; `value` in [0, 2^64)."""
    assert 0 <= value <= _U64, value
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)


def append_signed(out: bytearray, value: int) -> None:
    """Zigzag, then unsigned; `value` in [-2^63, 2^63)."""
    append_unsigned(out, ((value << 1) ^ (value >> _SIGN_SHIFT)) & _U64)


def read_unsigned(data: bytes, at: int) -> tuple[int, int]:
    """(value, position behind it). `IndexError` when the data ends inside, `ValueError` over 64
    bits."""
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


def read_signed(data: bytes, at: int) -> tuple[int, int]:
    value, at = read_unsigned(data, at)
    return (value >> 1) ^ -(value & 1), at
