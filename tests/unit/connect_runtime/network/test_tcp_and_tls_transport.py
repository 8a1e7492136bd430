from __future__ import annotations

import functools
import os
import random
import socket
import struct

import pytest

from connect_runtime.network import tcp_and_tls_transport
from connect_runtime.network.tcp_and_tls_transport import (
    BufferPool,
    FrameReader,
    InvalidFrameSize,
    OutgoingRequest,
    Poller,
    RequestSendQueue,
)


def test_a_view_is_writable_and_exactly_as_long_as_asked_for():
    view = BufferPool(1 << 20).acquire(100_001)
    assert (len(view), view.readonly, view.format, view.itemsize) == (100_001, False, "B", 1)
    view[99_999:] = b"xy"
    assert bytes(view[-3:]) == b"\x00xy"


def test_a_buffer_comes_back_when_its_last_view_is_gone_and_not_before():
    pool = BufferPool(1 << 20)
    view = pool.acquire(70_000)
    part = view[10:20][2:5]
    part[0] = 77
    del view
    assert (pool.free_bytes, pool.lent_bytes) == (0, 128 * 1024)
    other = pool.acquire(70_000)
    other[12] = 1
    assert part[0] == 77
    del part
    assert (pool.free_bytes, pool.lent_bytes) == (128 * 1024, 128 * 1024)
    again = pool.acquire(60_000)
    assert pool.free_bytes == 0
    assert again[12] == 77


def test_a_far_too_large_buffer_is_not_spent_on_a_small_answer():
    pool = BufferPool(1 << 30)
    big = pool.acquire(10 << 20)
    del big
    small = pool.acquire(1 << 20)
    assert pool.free_bytes == 10 << 20
    del small
    fitting = pool.acquire(9 << 20)
    assert pool.free_bytes == 1 << 20
    del fitting


def test_what_nobody_uses_is_bounded():
    pool = BufferPool(1 << 20)
    views = [pool.acquire(512 * 1024) for _ in range(4)]
    assert pool.free_bytes == 0
    del views
    assert pool.free_bytes == 1 << 20


def test_it_survives_the_end_of_the_pool():
    view = BufferPool(1).acquire(10)
    view[0] = 1
    with pytest.raises(IndexError):
        view[10]


def test_a_handler_may_unregister_a_source_that_is_ready_in_the_same_round():
    loop = Poller()
    pairs = [socket.socketpair() for _ in range(2)]
    ran: list[int] = []

    def take_all(index: int, mask: int) -> None:
        ran.append(index)
        for own, _ in pairs:
            loop.unregister(own)

    for index, (own, other) in enumerate(pairs):
        loop.register(
            own, tcp_and_tls_transport.READABLE, handler=functools.partial(take_all, index)
        )
        other.send(b"x")
    assert loop.poll(1.0) == 1
    assert len(ran) == 1
    assert loop.poll(0.0) == 0
    loop.close()
    for own, other in pairs:
        own.close()
        other.close()


def test_interest_can_change_and_no_event_ends_the_wait_at_its_deadline():
    loop = Poller()
    own, other = socket.socketpair()
    masks: list[int] = []
    loop.register(own, tcp_and_tls_transport.READABLE, handler=masks.append)
    assert loop.poll(0.01) == 0
    loop.modify(own, tcp_and_tls_transport.READABLE | tcp_and_tls_transport.WRITABLE)
    assert loop.poll(1.0) == 1
    other.send(b"x")
    assert loop.poll(1.0) == 1
    assert masks == [
        tcp_and_tls_transport.WRITABLE,
        tcp_and_tls_transport.READABLE | tcp_and_tls_transport.WRITABLE,
    ]
    loop.close()
    own.close()
    other.close()


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


def read_all(reader: FrameReader, stream) -> list[bytes]:
    found = []
    while (frame := reader.read_next_frame(stream)) is not None:
        assert not frame.readonly
        found.append(bytes(frame))
    return found


@pytest.mark.parametrize("seed", range(10))
def test_frames_come_out_whole_however_they_arrive(seed):
    rng = random.Random(seed)
    bodies = [bytes(rng.randrange(4, 300)) + bytes([i]) for i in range(20)]
    stream = Stream(framed(*bodies))
    reader = FrameReader(None, 1 << 20)
    found: list[bytes] = []
    while stream.data:
        stream.steps = [rng.choice([1, 2, 3, 50, 0]) for _ in range(3)] + [0]
        found += read_all(reader, stream)
    assert found == bodies
    assert not reader.has_partial_frame()


def test_midway_means_that_part_of_a_frame_is_here():
    reader = FrameReader(None, 100)
    stream = Stream(framed(b"abcdef"), steps=[2, 0])
    assert reader.read_next_frame(stream) is None  # type: ignore[arg-type]
    assert reader.has_partial_frame()
    stream.steps = [2, 3, 0]
    assert reader.read_next_frame(stream) is None  # type: ignore[arg-type]
    assert reader.has_partial_frame()
    assert read_all(reader, stream) == [b"abcdef"]
    assert not reader.has_partial_frame()


@pytest.mark.parametrize("size", [-1, 0, 3, 101, 2**31 - 1])
def test_impossible_sizes_are_refused_before_anything_is_allocated(size):
    raw = struct.pack(">i", size)
    with pytest.raises(InvalidFrameSize) as caught:
        FrameReader(None, 100).read_next_frame(Stream(raw + b"x" * 200))  # type: ignore[arg-type]
    assert (caught.value.size, caught.value.raw) == (size, raw)


def test_large_frames_use_the_pool_and_small_ones_do_not():
    pool = BufferPool(8 << 20)
    reader = FrameReader(pool, 8 << 20)
    large, small = b"L" * 300_000, b"small"
    frame = reader.read_next_frame(Stream(framed(large)))  # type: ignore[arg-type]
    assert frame is not None
    assert bytes(frame) == large
    del frame
    free = pool.free_bytes
    assert free >= 300_000
    assert read_all(reader, Stream(framed(small))) == [small]
    assert pool.free_bytes == free


def occupied_bytes() -> int:
    with open("/proc/self/statm") as statistics:
        return int(statistics.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="counts memory as Linux does")
@pytest.mark.parametrize("pool", [None, BufferPool(0)], ids=["alone", "pool"])
def test_a_frame_that_is_claimed_and_not_sent_occupies_no_memory(pool):
    size = 256 << 20
    reader = FrameReader(pool, size)
    before = occupied_bytes()
    assert reader.read_next_frame(Stream(struct.pack(">i", size))) is None  # type: ignore[arg-type]
    assert reader.has_partial_frame()
    assert occupied_bytes() - before < 32 << 20


def test_a_reader_that_is_closed_gives_its_buffer_back():
    pool = BufferPool(8 << 20)
    reader = FrameReader(pool, 8 << 20)
    assert reader.read_next_frame(Stream(struct.pack(">i", 1 << 20) + b"x")) is None  # type: ignore[arg-type]
    assert pool.lent_bytes == 1 << 20
    reader.close()
    assert (pool.lent_bytes, reader.has_partial_frame()) == (0, False)


def request(*chunks: bytes, done=lambda outcome: None) -> OutgoingRequest:
    return OutgoingRequest(
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
    queue, stream = RequestSendQueue(), Stream()
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
    assert all(r.unsent_bytes == 0 and r.chunks == [] for r in requests)


def test_sent_tells_whether_any_byte_of_a_request_left():
    queue = RequestSendQueue()
    first, second = request(b"aaaa"), request(b"bbbb")
    queue.push(first)
    queue.push(second)
    assert not queue.flush(Stream(steps=[4, 0]), 9.0)  # type: ignore[arg-type]
    assert (first.sent_s, second.sent_s) == (9.0, None)
    assert not queue.flush(Stream(steps=[1, 0]), 10.0)  # type: ignore[arg-type]
    assert (second.sent_s, second.unsent_bytes) == (10.0, 3)


def test_more_pieces_than_one_system_call_takes_still_leave_in_order():
    queue, stream = RequestSendQueue(), Stream()
    chunks = [bytes([i % 251]) for i in range(3000)]
    queue.push(request(*chunks))
    assert queue.flush(stream, 1.0)  # type: ignore[arg-type]
    assert stream.sent == b"".join(chunks)
