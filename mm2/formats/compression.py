r"""Kafka's compression codecs with their framings, for record batches v2 and older message sets.

- gzip: RFC 1952.
- snappy: the framing of xerial's `SnappyOutputStream` (magic, two versions, then blocks with i32
  length prefixes), or one raw block, which some clients write.
- lz4: frames of independent blocks (`KafkaLZ4BlockOutputStream`). Message format v0 has a wrong
  header checksum, so the checksum is not verified.
- zstd: frames without a content size.

Codec contexts and buffers are expensive to create and can serve only one call at a time, while
several copy tasks may run in one process. Each call therefore borrows an idle one from a pool and
returns it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

import cramjam
import zstandard

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODEC_NAMES = {NONE: "none", GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}

DECOMPRESSED_BYTES_MAX = 256 * 1024 * 1024
"""Upper limit of the decompressed size in bytes, regardless of the caller's limit."""

_ZSTD_SLICE_BYTES = 512
"""Number of compressed zstd bytes passed to the decompressor at once. They decompress to at most 16
MB, because a block of 4 bytes can expand to 128 KB. Therefore, a size limit is exceeded by at most
16 MB before it is checked."""

_GZIP_WBITS = 31

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEAD = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_SNAPPY_BLOCK_BYTES = 32 * 1024
_SIZE_BE = struct.Struct(">i")

_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_FRAME_HEADER = _LZ4_MAGIC + b"\x60\x40\x82"
"""LZ4 frame header: version 1, independent blocks of up to 64 KB, and the checksum of both
descriptor bytes."""
_LZ4_BLOCK_BYTES = 64 * 1024
_LZ4_BLOCK_SIZES = {4: 64 * 1024, 5: 256 * 1024, 6: 1024 * 1024, 7: 4 * 1024 * 1024}
_LZ4_UNCOMPRESSED_FLAG = 0x80000000
_SIZE_LE = struct.Struct("<I")


class DecompressionError(Exception):
    """Compressed records cannot be decompressed. The message states the reason."""


class DecompressedTooLargeError(DecompressionError):
    """Compressed records decompress to more bytes than the caller allows."""


def decompress(codec: int, data: memoryview, *, max_bytes: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """Decompress the records of a batch.

    Raises `DecompressionError` if the data is damaged or the codec is unknown, and
    `DecompressedTooLargeError` if the result exceeds `max_bytes`. Decompression stops soon after
    this limit, so that memory use stays bounded.
    """
    unpacker = _DECOMPRESSORS.get(codec)
    if unpacker is None:
        raise DecompressionError(f"unknown compression codec {codec}")
    try:
        return unpacker(data, min(max_bytes, DECOMPRESSED_BYTES_MAX))
    except (
        zlib.error,
        zstandard.ZstdError,
        cramjam.DecompressionError,
        struct.error,
        IndexError,
        ValueError,
    ) as error:
        raise DecompressionError(f"the {CODEC_NAMES[codec]} data is damaged: {error}") from error


def compress(codec: int, data: bytes | bytearray) -> bytes:
    """Compress records in the format of Kafka's producers. `codec` must be one of `CODEC_NAMES`."""
    return _COMPRESSORS[codec](data)


Pooled = TypeVar("Pooled")


def _take_from_pool_or_create(idle: list[Pooled], make: Callable[[], Pooled]) -> Pooled:
    try:
        return idle.pop()
    except IndexError:  # not checked before: another thread may be faster
        return make()


def _check_decompressed_size(size: int, max_bytes: int) -> int:
    if size > max_bytes:
        raise DecompressedTooLargeError(f"the data decompresses to more than {max_bytes} bytes")
    return size


def _copy_uncompressed(data: memoryview, max_bytes: int) -> bytes:
    _check_decompressed_size(len(data), max_bytes)
    return bytes(data)


class _FrameDecompressor(Protocol):
    """Decompresses one of several concatenated frames (gzip: members) of compressed data."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes:
        """Input bytes that follow the end of the frame."""

    def decompress(self, data: memoryview, /) -> bytes: ...


def _decompress_frames(
    data: memoryview, begin: Callable[[], _FrameDecompressor], *, name: str, max_bytes: int
) -> bytes:
    """Decompress any number of concatenated frames. Raises an error for a truncated frame.

    The input is passed in pieces, because passing the whole remaining input to each of many small
    frames would take quadratic time.
    """
    out: list[bytes] = []
    at, size, end = 0, 0, len(data)
    while at < end:
        frame = begin()
        while not frame.eof:
            if at >= end:
                raise DecompressionError(f"the {name} data is truncated")
            given = data[at : at + _ZSTD_SLICE_BYTES]
            out.append(frame.decompress(given))
            size = _check_decompressed_size(size + len(out[-1]), max_bytes)
            at += len(given) - len(frame.unused_data)
    return b"".join(out)


def _decompress_gzip(data: memoryview, max_bytes: int) -> bytes:
    member = zlib.decompressobj(_GZIP_WBITS)
    plain = member.decompress(data, max_bytes + 1)
    _check_decompressed_size(len(plain), max_bytes)
    if member.eof and not member.unused_data:
        return plain

    def create_decompressor() -> _FrameDecompressor:
        return zlib.decompressobj(_GZIP_WBITS)

    return _decompress_frames(data, create_decompressor, name="gzip", max_bytes=max_bytes)


def _compress_gzip(data: bytes | bytearray) -> bytes:
    member = zlib.compressobj(wbits=_GZIP_WBITS)
    return member.compress(data) + member.flush()


def _decompress_snappy(data: memoryview, max_bytes: int) -> bytes:
    if data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        _check_decompressed_size(cramjam.snappy.decompress_raw_len(data), max_bytes)
        return bytes(cramjam.snappy.decompress_raw(data))
    at, size, end = len(_XERIAL_HEAD), 0, len(data)
    out: list[bytes] = []
    while at < end:
        (length,) = _SIZE_BE.unpack_from(data, at)
        at += 4
        if not 0 <= length <= end - at:
            raise DecompressionError(f"the snappy data has an invalid block length: {length}")
        block = data[at : at + length]
        size = _check_decompressed_size(size + cramjam.snappy.decompress_raw_len(block), max_bytes)
        out.append(bytes(cramjam.snappy.decompress_raw(block)))
        at += length
    return out[0] if len(out) == 1 else b"".join(out)


def _compress_snappy(data: bytes | bytearray) -> bytes:
    out: list[bytes] = [_XERIAL_HEAD]
    for block in _split_blocks(data, _SNAPPY_BLOCK_BYTES):
        packed = bytes(cramjam.snappy.compress_raw(block))
        out += (_SIZE_BE.pack(len(packed)), packed)
    return b"".join(out)


def _decompress_lz4(data: memoryview, max_bytes: int) -> bytes:
    at, block_max, checked = _parse_lz4_header(data)
    size, end = 0, len(data)
    out: list[bytes] = []
    while at < end:
        (length,) = _SIZE_LE.unpack_from(data, at)
        at += 4
        if length == 0:
            return out[0] if len(out) == 1 else b"".join(out)
        plain, length = bool(length & _LZ4_UNCOMPRESSED_FLAG), length & ~_LZ4_UNCOMPRESSED_FLAG
        if length > end - at:
            break
        block = data[at : at + length]
        out.append(bytes(block) if plain else _decompress_lz4_block(block, block_max))
        size = _check_decompressed_size(size + len(out[-1]), max_bytes)
        at += length + checked
    raise DecompressionError("the lz4 data is truncated")


def _parse_lz4_header(data: memoryview) -> tuple[int, int, int]:
    """Parse an LZ4 frame header into the position of the first block, the maximum block size, and
    the number of checksum bytes after each block."""
    if data[:4] != _LZ4_MAGIC:
        raise DecompressionError("the lz4 data does not begin with a frame")
    flags, block = data[4], data[5]
    if flags >> 6 != 1 or not flags & 0x20 or flags & 0x03:
        raise DecompressionError(
            f"the lz4 frame has flags {flags:#x}, which Kafka does not support"
        )
    block_max = _LZ4_BLOCK_SIZES.get(block >> 4 & 7)
    if block_max is None:
        raise DecompressionError(f"the lz4 frame has an unknown block size {block:#x}")
    return (15 if flags & 0x08 else 7), block_max, (4 if flags & 0x10 else 0)


_LZ4_BUFFERS: dict[int, list[bytearray]] = {size: [] for size in _LZ4_BLOCK_SIZES.values()}


def _decompress_lz4_block(block: memoryview, block_max: int) -> bytes:
    idle = _LZ4_BUFFERS[block_max]
    room = _take_from_pool_or_create(idle, lambda: bytearray(block_max))
    try:
        size = cramjam.lz4.decompress_block_into(block, room, output_len=block_max)
        return bytes(memoryview(room)[:size])
    finally:
        idle.append(room)


def _compress_lz4(data: bytes | bytearray) -> bytes:
    out: list[bytes] = [_LZ4_FRAME_HEADER]
    for block in _split_blocks(data, _LZ4_BLOCK_BYTES):
        packed = bytes(cramjam.lz4.compress_block(block, store_size=False))
        if len(packed) < len(block):
            out += (_SIZE_LE.pack(len(packed)), packed)
        else:
            out += (_SIZE_LE.pack(len(block) | _LZ4_UNCOMPRESSED_FLAG), bytes(block))
    out.append(bytes(4))
    return b"".join(out)


_ZSTD_DECOMPRESSORS: list[zstandard.ZstdDecompressor] = []
_ZSTD_COMPRESSORS: list[zstandard.ZstdCompressor] = []


def _decompress_zstd(data: memoryview, max_bytes: int) -> bytes:
    _check_decompressed_size(
        zstandard.frame_content_size(data), max_bytes
    )  # -1 if the frame does not state it
    context = _take_from_pool_or_create(_ZSTD_DECOMPRESSORS, zstandard.ZstdDecompressor)
    try:
        if len(data) <= _ZSTD_SLICE_BYTES:
            frame = context.decompressobj()
            plain = frame.decompress(data)
            _check_decompressed_size(len(plain), max_bytes)
            if frame.eof and not frame.unused_data:
                return plain
        return _decompress_frames(data, context.decompressobj, name="zstd", max_bytes=max_bytes)
    finally:
        _ZSTD_DECOMPRESSORS.append(context)


def _compress_zstd(data: bytes | bytearray) -> bytes:
    context = _take_from_pool_or_create(_ZSTD_COMPRESSORS, zstandard.ZstdCompressor)
    try:
        return context.compress(data)
    finally:
        _ZSTD_COMPRESSORS.append(context)


def _split_blocks(data: bytes | bytearray, size: int) -> Iterator[memoryview]:
    view = memoryview(data)
    for at in range(0, len(view), size):
        yield view[at : at + size]


_DECOMPRESSORS: dict[int, Callable[[memoryview, int], bytes]] = {
    NONE: _copy_uncompressed,
    GZIP: _decompress_gzip,
    SNAPPY: _decompress_snappy,
    LZ4: _decompress_lz4,
    ZSTD: _decompress_zstd,
}
_COMPRESSORS: dict[int, Callable[[bytes | bytearray], bytes]] = {
    NONE: bytes,
    GZIP: _compress_gzip,
    SNAPPY: _compress_snappy,
    LZ4: _compress_lz4,
    ZSTD: _compress_zstd,
}
