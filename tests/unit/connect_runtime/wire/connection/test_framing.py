from __future__ import annotations

import random
import struct

import pytest

from connect_runtime.wire.connection import buffers, framing


class Stream:
    """Stands in for a transport: gives and takes so many bytes per call."""

    def __init__(self, data: bytes = b"", steps: list[int] | None = None) -> None:
        self.data = data
        self.steps = steps if steps is not None else []
        self.sent = b""

    def _step(self) -> int:
        return self.steps.pop(0) if self.steps else 1 << 30

    def receive_into(self, view: memoryview) -> int:
        size = min(self._step(), len(view), len(self.data))
        view[:size] = self.data[:size]
        self.data = self.data[size:]
        return size

    def send(self, chunks) -> int:
        taken = b"".join(chunks)[: self._step()]
        self.sent += taken
        return len(taken)


def framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


def read_all(reader: framing.FrameReader, stream) -> list[bytes]:
    found = []
    while (frame := reader.next_frame(stream)) is not None:
        assert not frame.readonly
        found.append(bytes(frame))
    return found


@pytest.mark.parametrize("seed", range(10))
def test_frames_come_out_whole_however_they_arrive(seed):
    rng = random.Random(seed)
    bodies = [bytes(rng.randrange(4, 300)) + bytes([i]) for i in range(20)]
    stream = Stream(framed(*bodies))
    reader = framing.FrameReader(None, 1 << 20)
    found: list[bytes] = []
    while stream.data:
        stream.steps = [rng.choice([1, 2, 3, 50, 0]) for _ in range(3)] + [0]
        found += read_all(reader, stream)
    assert found == bodies
    assert not reader.midway()


def test_midway_means_that_part_of_a_frame_is_here():
    reader = framing.FrameReader(None, 100)
    stream = Stream(framed(b"abcdef"), steps=[2, 0])
    assert reader.next_frame(stream) is None  # type: ignore[arg-type]
    assert reader.midway()
    stream.steps = [2, 3, 0]
    assert reader.next_frame(stream) is None  # type: ignore[arg-type]
    assert reader.midway()
    assert read_all(reader, stream) == [b"abcdef"]
    assert not reader.midway()


@pytest.mark.parametrize("size", [-1, 0, 3, 101, 2**31 - 1])
def test_impossible_sizes_are_refused_before_anything_is_allocated(size):
    raw = struct.pack(">i", size)
    with pytest.raises(framing.BadSize) as caught:
        framing.FrameReader(None, 100).next_frame(Stream(raw + b"x" * 200))  # type: ignore[arg-type]
    assert (caught.value.size, caught.value.raw) == (size, raw)


def test_large_frames_use_the_pool_and_small_ones_do_not():
    pool = buffers.BufferPool(8 << 20)
    reader = framing.FrameReader(pool, 8 << 20)
    large, small = b"L" * 300_000, b"small"
    frame = reader.next_frame(Stream(framed(large)))  # type: ignore[arg-type]
    assert frame is not None
    assert bytes(frame) == large
    del frame
    free = pool.free_bytes
    assert free >= 300_000
    assert read_all(reader, Stream(framed(small))) == [small]
    assert pool.free_bytes == free


def request(*chunks: bytes, done=lambda outcome: None) -> framing.Request:
    return framing.Request(
        api_key=0,
        version=0,
        chunks=[memoryview(chunk) for chunk in chunks],
        deadline_s=1.0,
        queued_s=0.0,
        done=done,
    )


@pytest.mark.parametrize("seed", range(10))
def test_pieces_leave_in_order_however_few_bytes_the_system_takes(seed):
    rng = random.Random(seed)
    queue, stream = framing.SendQueue(), Stream()
    requests = [
        request(*(bytes([65 + i]) * rng.randrange(1, 40) for _ in range(rng.randrange(1, 5))))
        for i in range(12)
    ]
    expected = b"".join(bytes(c) for r in requests for c in r.chunks)
    for each in requests:
        queue.push(each)
    rounds = 0
    while queue:
        rounds += 1
        stream.steps = [rng.choice([1, 7, 30]), 0]
        queue.flush(stream, float(rounds))  # type: ignore[arg-type]
    assert stream.sent == expected
    times = [r.sent_s for r in requests]
    assert times == sorted(times)  # type: ignore[type-var]
    assert all(r.left == 0 and r.chunks == [] for r in requests)


def test_sent_tells_whether_any_byte_of_a_request_left():
    queue = framing.SendQueue()
    first, second = request(b"aaaa"), request(b"bbbb")
    queue.push(first)
    queue.push(second)
    assert not queue.flush(Stream(steps=[4, 0]), 9.0)  # type: ignore[arg-type]
    assert (first.sent_s, second.sent_s) == (9.0, None)
    assert not queue.flush(Stream(steps=[1, 0]), 10.0)  # type: ignore[arg-type]
    assert (second.sent_s, second.left) == (10.0, 3)


def test_more_pieces_than_one_system_call_takes_still_leave_in_order():
    queue, stream = framing.SendQueue(), Stream()
    chunks = [bytes([i % 251]) for i in range(3000)]
    queue.push(request(*chunks))
    assert queue.flush(stream, 1.0)  # type: ignore[arg-type]
    assert stream.sent == b"".join(chunks)
