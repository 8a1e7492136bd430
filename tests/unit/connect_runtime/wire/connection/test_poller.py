from __future__ import annotations

import functools
import socket

from connect_runtime.wire.connection import poller


def test_a_handler_may_unregister_a_source_that_is_ready_in_the_same_round():
    loop = poller.Poller()
    pairs = [socket.socketpair() for _ in range(2)]
    ran: list[int] = []

    def take_all(index: int, mask: int) -> None:
        ran.append(index)
        for own, _ in pairs:
            loop.unregister(own)

    for index, (own, other) in enumerate(pairs):
        loop.register(own, poller.READ, handler=functools.partial(take_all, index))
        other.send(b"x")
    assert loop.poll(1.0) == 1
    assert len(ran) == 1
    assert loop.poll(0.0) == 0
    loop.close()
    for own, other in pairs:
        own.close()
        other.close()


def test_interest_can_change_and_no_event_ends_the_wait_at_its_deadline():
    loop = poller.Poller()
    own, other = socket.socketpair()
    masks: list[int] = []
    loop.register(own, poller.READ, handler=masks.append)
    assert loop.poll(0.01) == 0
    loop.modify(own, poller.READ | poller.WRITE)
    assert loop.poll(1.0) == 1
    other.send(b"x")
    assert loop.poll(1.0) == 1
    assert masks == [poller.WRITE, poller.READ | poller.WRITE]
    loop.close()
    own.close()
    other.close()
