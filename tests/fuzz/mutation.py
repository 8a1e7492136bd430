"""Inputs made of seeds, the same for the same random number generator."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence

LENGTH_MAX = 200_000

_NUMBERS = (
    *(0, 1, -1, 2, 127, 128, 255, 256, 32767, -32768, 65535, 2**31 - 1, -(2**31), 2**32 - 1),
    *(2**63 - 1, -(2**63), 2**62, 1 << 20, 1 << 24, 1 << 28, 0x7FFFFFF0, 1_000_000),
)
_WIDTHS = ((1, ">b"), (2, ">h"), (4, ">i"), (8, ">q"))
_WORDS = tuple(
    word.encode("utf-8", "surrogatepass")
    for word in (
        *("{", "}", "[", "]", ":", ",", '"', "null", "true", "false", "0", "-1", "1e999", "1e400"),
        *("-0.0", "1e-400", "9" * 30, "9" * 5000, '""', '"\\ud800"', '"\\u0000"', "NaN"),
        *("Infinity", '"a"', '{"a":', "\ufeff", "'", "\\", "\n", "\r", "\t", " ", "#", "!", "="),
        *("${", "}", "${env:", "${file:/etc/passwd:", "&a", "*a", "- ", "? ", "| ", "> "),
        *("!!python/object:os.system", "<<: *a", "%YAML 1.1\n", "---\n", "...\n", "@", "`", " é"),
        *("\u2028", "\x00", "\x85", "𝄞", "\x1b]52;c;", "\ud800"),
    )
)


def mutated(rng: random.Random, seeds: Sequence[bytes], *, text: bool) -> bytes:
    """One input: a changed seed mostly, sometimes noise."""
    if text and rng.random() < 0.65:
        return _mutated_text(rng, seeds)[:LENGTH_MAX]
    if not seeds or rng.random() < 0.06:
        return rng.randbytes(rng.choice([0, 1, 2, 3, 4, 8, 16, 32, 64, 100, 300, 1000]))
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.choice([1, 1, 1, 2, 3, 5, 9])):
        _change(rng, data, seeds)
    return bytes(data[:LENGTH_MAX])


def _mutated_text(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    if not seeds or rng.random() < 0.08:
        return b"".join(rng.choice(_WORDS) for _ in range(rng.randrange(1, 60)))
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.choice([1, 1, 2, 3, 6])):
        at = rng.randrange(len(data) + 1)
        word = rng.choice(_WORDS) * (rng.choice([2, 10, 100, 2000]) if rng.random() < 0.1 else 1)
        end = at if rng.random() < 0.5 else at + rng.randrange(1, 9)
        data[at:end] = word
    return bytes(data)


def _change(rng: random.Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    if not data:
        data += rng.randbytes(rng.randrange(20))
        return
    at = rng.randrange(len(data))
    match rng.randrange(11):
        case 0:
            data[at] ^= 1 << rng.randrange(8)
        case 1:
            data[at] = rng.randrange(256)
        case 2:
            del data[at:]
        case 3:
            del data[at : at + rng.randrange(1, 9)]
        case 4:
            data[at:at] = rng.randbytes(rng.randrange(1, 9))
        case 5:
            width, form = rng.choice(_WIDTHS)
            half = 1 << (8 * width - 1)
            data[at : at + width] = struct.pack(
                form, (rng.choice(_NUMBERS) + half) % (2 * half) - half
            )
        case 6:
            data[at : at + rng.randrange(3)] = _varint(rng.choice(_NUMBERS) & (1 << 64) - 1)
        case 7:
            other = rng.randrange(len(data))
            data[at:at] = data[min(at, other) : max(at, other)]
        case 8:
            seed = rng.choice(seeds)
            begin = rng.randrange(len(seed) + 1)
            data[at : at + rng.randrange(12)] = seed[begin : rng.randrange(len(seed) + 1)]
        case 9:
            data[at:at] = b"\xff" * rng.randrange(1, 12)
        case _:
            data += rng.randbytes(rng.randrange(1, 30))


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
