from __future__ import annotations

import concurrent.futures
import gzip
import struct
import sys
import tracemalloc

import cramjam
import pytest
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mm2.formats import compression
from mm2.formats.compression import DecompressedTooLargeError, DecompressionError
from tests.fakes import batches
from tests.support import examples

CODECS = sorted(compression.CODEC_NAMES)
PACKING = [compression.GZIP, compression.SNAPPY, compression.LZ4, compression.ZSTD]
MEGABYTE = 1 << 20

plain_data = st.one_of(
    st.binary(max_size=500),
    st.builds(lambda part, times: part * times, st.binary(max_size=40), st.integers(0, 8000)),
)


def unpack(codec, data):
    return compression.decompress(codec, memoryview(data))


# Round trips


@pytest.mark.parametrize("codec", [compression.LZ4, compression.ZSTD])
def test_copies_of_one_process_do_not_share_a_context(codec):
    """It serves one call at a time: bytes of another copy came out, or the process died."""

    def round_trips(seed: int) -> bool:
        texts = [b"%d-%d;" % (seed, number) * (50 + number % 50) for number in range(500)]
        return all(unpack(codec, compression.compress(codec, each)) == each for each in texts)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            assert all(pool.map(round_trips, range(6)))
    finally:
        sys.setswitchinterval(before)


@settings(deadline=None)
@given(st.sampled_from(CODECS), plain_data)
@example(compression.SNAPPY, bytes(32 * 1024))
@example(compression.SNAPPY, bytes(32 * 1024 + 1))
@example(compression.LZ4, bytes(64 * 1024))
@example(compression.LZ4, bytes(64 * 1024 + 1))
def test_what_is_packed_unpacks_to_the_same(codec, data):
    assert unpack(codec, compression.compress(codec, data)) == data
    assert unpack(codec, compression.compress(codec, bytearray(data))) == data


@settings(deadline=None)
@given(st.sampled_from(CODECS), plain_data)
def test_what_others_pack_is_unpacked(codec, data):
    assert unpack(codec, batches.packed(codec, data)) == data


@pytest.mark.parametrize("codec", PACKING)
def test_what_repeats_becomes_smaller(codec):
    assert len(compression.compress(codec, b"the same again " * 1000)) < 2000


@pytest.mark.parametrize("codec", CODECS)
def test_ten_megabytes_that_cannot_be_packed_come_back(codec):
    noise = bytes(cramjam.zstd.compress(bytes(range(256)))) + zstandard.backend.encode()
    data = b"".join(struct.pack(">Q", at * 0x9E3779B97F4A7C15 & (1 << 64) - 1) for at in range(9))
    data = (noise + data) * (10 * MEGABYTE // len(noise + data))
    assert unpack(codec, compression.compress(codec, data)) == data


# Framings of other writers


def test_gzip_members_follow_each_other():
    assert (
        unpack(compression.GZIP, gzip.compress(b"one, ", mtime=0) + gzip.compress(b"two", mtime=0))
        == b"one, two"
    )


@pytest.mark.parametrize("sizes", [(1,), (3, 1), (0, 5), (70_000, 70_000)])
def test_snappy_blocks_follow_each_other_behind_xerials_head(sizes):
    parts = [bytes([at]) * size for at, size in enumerate(sizes)]
    packed = [bytes(cramjam.snappy.compress_raw(part)) for part in parts]
    framed = b"".join(struct.pack(">i", len(each)) + each for each in packed)
    for versions in ((1, 1), (0, 0), (7, 1)):
        head = b"\x82SNAPPY\x00" + struct.pack(">ii", *versions)
        assert unpack(compression.SNAPPY, head + framed) == b"".join(parts)


def lz4_frame(*blocks, flags=0x60, size_code=4, behind=b"", checksum=b"sum!"):
    """Blocks as they are; `behind` each stands a checksum, where the flags say so."""
    described = bytes([flags, size_code << 4]) + (bytes(8) if flags & 8 else b"") + b"h"
    framed = b"".join(struct.pack("<I", len(b) | 1 << 31) + b + behind for b in blocks)
    return b"\x04\x22\x4d\x18" + described + framed + bytes(4) + (checksum if flags & 4 else b"")


@pytest.mark.parametrize(
    ("flags", "behind"),
    [(0x60, b""), (0x68, b""), (0x64, b""), (0x6C, b""), (0x70, b"crc!"), (0x7C, b"crc!")],
    ids=["plain", "content size", "content checksum", "both", "block checksums", "all"],
)
@pytest.mark.parametrize("size_code", [4, 5, 6, 7])
def test_lz4_frames_may_carry_sizes_and_checksums(flags, behind, size_code):
    framed = lz4_frame(b"one, ", b"two", flags=flags, size_code=size_code, behind=behind)
    assert unpack(compression.LZ4, framed) == b"one, two"


@pytest.mark.parametrize(("size_code", "size"), [(4, 16), (5, 18), (6, 20), (7, 22)])
def test_lz4_blocks_may_be_as_large_as_the_frame_says(size_code, size):
    block = bytes(cramjam.lz4.compress_block(bytes(1 << size), store_size=False))
    head = b"\x04\x22\x4d\x18" + bytes([0x60, size_code << 4, 0])
    framed = head + struct.pack("<I", len(block)) + block + bytes(4)
    assert unpack(compression.LZ4, framed) == bytes(1 << size)


def test_a_zstd_frame_may_say_its_size_and_others_may_follow():
    sized = zstandard.ZstdCompressor(write_content_size=True).compress(b"one, ")
    unsized = zstandard.ZstdCompressor(write_content_size=False).compress(b"two")
    assert unpack(compression.ZSTD, sized + unsized) == b"one, two"
    large = zstandard.ZstdCompressor().compress(bytes(range(256)) * 40_000)
    assert unpack(compression.ZSTD, large + sized + large) == (
        bytes(range(256)) * 40_000 + b"one, " + bytes(range(256)) * 40_000
    )


# Damage


@settings(deadline=None, max_examples=examples.of(300))
@given(st.integers(0, 7), st.binary(max_size=300))
def test_arbitrary_bytes_are_unpacked_or_refused(codec, data):
    refused_or_bytes(codec, data)


HEADS = {
    compression.GZIP: gzip.compress(b"", mtime=0)[:10],
    compression.SNAPPY: b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1),
    compression.LZ4: bytes.fromhex("04224d18 60 40 82"),
    compression.ZSTD: bytes.fromhex("28b52ffd 00 58"),
}


@settings(deadline=None, max_examples=examples.of(300))
@given(st.sampled_from(PACKING), st.binary(max_size=300))
def test_arbitrary_bytes_behind_the_right_beginning_are_too(codec, data):
    refused_or_bytes(codec, HEADS[codec] + data)


@settings(deadline=None, max_examples=examples.of(400))
@given(st.data(), st.sampled_from(PACKING), plain_data.filter(bool), st.booleans())
def test_changed_bytes_are_unpacked_to_something_or_refused(data, codec, plain, theirs):
    packed = bytearray((batches.packed if theirs else compression.compress)(codec, plain))
    for _ in range(data.draw(st.integers(1, 4))):
        packed[data.draw(st.integers(0, len(packed) - 1))] ^= data.draw(st.integers(1, 255))
    refused_or_bytes(codec, packed)


def refused_or_bytes(codec, data):
    try:
        found = unpack(codec, data)
    except DecompressionError:
        return
    assert isinstance(found, bytes)
    assert len(found) <= compression.DECOMPRESSED_BYTES_MAX


@settings(deadline=None, max_examples=examples.of(300))
@given(st.data(), st.sampled_from(PACKING), plain_data.filter(bool))
def test_what_is_cut_off_is_refused_or_all_that_stands_before_a_cut_between_blocks(
    data, codec, plain
):
    packed = compression.compress(codec, plain)
    kept = data.draw(st.integers(1, len(packed) - 1))
    try:
        found = unpack(codec, packed[:kept])
    except DecompressionError:
        return
    assert codec == compression.SNAPPY, "only snappy's framing has no end"
    assert plain.startswith(found)
    assert len(found) % (32 * 1024) == 0


@pytest.mark.parametrize(
    ("codec", "data", "saying"),
    [
        (5, b"x", "unknown compression codec 5"),
        (7, b"", "codec 7"),
        (compression.GZIP, b"not gzip at all", "the gzip data is damaged"),
        (compression.GZIP, gzip.compress(b"abc", mtime=0)[:-1], "the gzip data is truncated"),
        (
            compression.GZIP,
            gzip.compress(b"a", mtime=0) * 2 + b"\x1f",
            "the gzip data is truncated",
        ),
        (
            compression.SNAPPY,
            HEADS[compression.SNAPPY] + struct.pack(">i", 9),
            "invalid block length: 9",
        ),
        (
            compression.SNAPPY,
            HEADS[compression.SNAPPY] + struct.pack(">i", -1),
            "invalid block length: -1",
        ),
        (compression.SNAPPY, HEADS[compression.SNAPPY] + b"\0\0\0", "the snappy data is damaged"),
        (compression.SNAPPY, b"\xff\xff\xff\xff\xff\xff", "the snappy data is damaged"),
        (compression.LZ4, b"", "does not begin with a frame"),
        (compression.LZ4, b"abcdefgh", "does not begin with a frame"),
        (compression.LZ4, HEADS[compression.LZ4][:5], "the lz4 data is damaged"),
        (compression.LZ4, HEADS[compression.LZ4], "the lz4 data is truncated"),
        (compression.LZ4, lz4_frame(b"abc")[:-4], "the lz4 data is truncated"),
        (compression.LZ4, lz4_frame(b"abc", flags=0x20), "flags 0x20"),
        (compression.LZ4, lz4_frame(b"abc", flags=0x61), "flags 0x61"),
        (compression.LZ4, lz4_frame(b"abc", flags=0x62), "flags 0x62"),
        (compression.LZ4, lz4_frame(b"abc", size_code=3), "unknown block size 0x30"),
        (compression.ZSTD, b"not zstd at all", "the zstd data is damaged"),
        (
            compression.ZSTD,
            compression.compress(compression.ZSTD, b"abc")[:-1],
            "zstd data is truncated",
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_damage_is_told(codec, data, saying):
    with pytest.raises(DecompressionError, match=saying):
        unpack(codec, data)


def test_an_lz4_block_larger_than_the_frame_allows_is_damage():
    block = bytes(cramjam.lz4.compress_block(bytes((64 << 10) + 1), store_size=False))
    framed = HEADS[compression.LZ4] + struct.pack("<I", len(block)) + block + bytes(4)
    with pytest.raises(DecompressionError, match="the lz4 data is damaged"):
        unpack(compression.LZ4, framed)


# Bounds


def bombs(codec, size):
    """Zeros, as one piece and as many."""
    yield compression.compress(codec, bytes(size))
    part = size // 16
    match codec:
        case compression.GZIP:
            yield gzip.compress(bytes(part), mtime=0) * 16
        case compression.SNAPPY:
            yield bytes(cramjam.snappy.compress_raw(bytes(size)))
        case compression.ZSTD:
            yield zstandard.ZstdCompressor().compress(bytes(part)) * 16
            yield zstandard.ZstdCompressor(write_content_size=False).compress(bytes(size)) + bytes(
                8192
            )


@pytest.mark.parametrize("codec", PACKING)
def test_more_than_the_bound_is_not_unpacked(codec, monkeypatch):
    monkeypatch.setattr(compression, "DECOMPRESSED_BYTES_MAX", MEGABYTE)
    monkeypatch.setattr(compression, "_ZSTD_SLICE_BYTES", 16)
    assert len(unpack(codec, compression.compress(codec, bytes(MEGABYTE)))) == MEGABYTE
    for bomb in bombs(codec, 64 * MEGABYTE):
        tracemalloc.start()
        try:
            with pytest.raises(DecompressionError, match="more than 1048576 bytes"):
                unpack(codec, bomb)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 16 * MEGABYTE


@pytest.mark.parametrize("codec", PACKING)
def test_one_byte_more_than_the_bound_is_too_much(codec, monkeypatch):
    monkeypatch.setattr(compression, "DECOMPRESSED_BYTES_MAX", 100_000)
    monkeypatch.setattr(compression, "_ZSTD_SLICE_BYTES", 16)
    assert len(unpack(codec, compression.compress(codec, bytes(100_000)))) == 100_000
    with pytest.raises(DecompressionError):
        unpack(codec, compression.compress(codec, bytes(100_001)))


@pytest.mark.parametrize("codec", [compression.NONE, *PACKING])
def test_no_more_is_unpacked_than_the_caller_allows(codec):
    data = compression.compress(codec, bytes(30_000))
    assert compression.decompress(codec, memoryview(data), max_bytes=30_000) == bytes(30_000)
    with pytest.raises(DecompressedTooLargeError, match="more than 29999 bytes"):
        compression.decompress(codec, memoryview(data), max_bytes=29_999)


def test_a_few_kilobytes_of_zstd_never_become_more_than_a_slice_above_the_limit():
    """The frame does not state its size, and 6 KB of it are 200 MB."""
    packer = zstandard.ZstdCompressor(level=19, write_content_size=False)
    bomb = packer.compress(bytes(200 * MEGABYTE))
    assert len(bomb) < 8192
    tracemalloc.start()
    try:
        with pytest.raises(DecompressedTooLargeError):
            compression.decompress(compression.ZSTD, memoryview(bomb), max_bytes=MEGABYTE)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20 * MEGABYTE


class ShortFrame:
    """Ends behind its first byte; `given` counts what all of them were given."""

    given = 0

    def __init__(self):
        self.unused_data = b""
        self.eof = False

    def decompress(self, data):
        ShortFrame.given += len(data)
        self.unused_data, self.eof = bytes(data[1:]), True
        return bytes(data[:1])


def test_many_small_frames_are_given_a_slice_each_and_not_all_that_is_left():
    data = bytes(range(256)) * 200
    ShortFrame.given = 0
    most = len(data)
    assert (
        compression._decompress_frames(memoryview(data), ShortFrame, name="short", max_bytes=most)
        == data
    )
    assert ShortFrame.given <= compression._ZSTD_SLICE_BYTES * len(data)


@pytest.mark.parametrize("codec", [compression.GZIP, compression.ZSTD])
def test_thousands_of_frames_follow_each_other(codec):
    parts = [b"", b"x", b"part" * 2000] * 1500
    whole = b"".join(compression.compress(codec, each) for each in parts)
    assert unpack(codec, whole) == b"".join(parts)


def test_the_smallest_zstd_data_that_is_not_watched_stays_within_the_bound():
    """The densest that zstd has: blocks of one repeated byte, 128 KB each, in 4 bytes."""
    head = bytes.fromhex("28b52ffd 00 58")  # window of 2 MB, no content size
    blocks = compression._ZSTD_SLICE_BYTES // 4
    body = (struct.pack("<I", (128 << 10) << 3 | 1 << 1)[:3] + b"x") * (blocks - 3)
    last = struct.pack("<I", (128 << 10) << 3 | 1 << 1 | 1)[:3] + b"x"
    packed = head + body + last
    assert len(packed) <= compression._ZSTD_SLICE_BYTES
    assert len(unpack(compression.ZSTD, packed)) == (blocks - 2) * (128 << 10)
    assert blocks * (128 << 10) <= compression.DECOMPRESSED_BYTES_MAX
