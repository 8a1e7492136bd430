from __future__ import annotations

import random
import socket

from mm2.sandbox import port_reservation


def test_a_reserved_port_is_low_and_nobody_else_gets_it():
    first = port_reservation.reserve_port()
    second = port_reservation.reserve_port(preferred=first.port)

    assert (
        port_reservation.FIRST_RESERVED_PORT
        <= first.port
        <= port_reservation.LAST_RESERVED_PORT
        < 32_768
    )
    assert second.port != first.port
    first.release()
    third = port_reservation.reserve_port(preferred=first.port)
    assert third.port == first.port
    for reservation in (second, third):
        reservation.release()


def test_a_port_that_somebody_listens_on_is_passed_over():
    free = port_reservation.reserve_port()
    free.release()
    with socket.create_server(("127.0.0.1", free.port)):
        other = port_reservation.reserve_port(preferred=free.port)

    assert other.port != free.port
    other.release()


def test_the_search_wraps_around_at_the_end():
    class AtTheEnd(random.Random):
        def randrange(self, *_: int) -> int:  # type: ignore[override]  # one answer is enough
            return port_reservation.LAST_RESERVED_PORT

    held = [port_reservation.reserve_port(rng=AtTheEnd()) for _ in range(3)]

    assert len({reservation.port for reservation in held}) == 3
    assert (
        min(reservation.port for reservation in held) < port_reservation.FIRST_RESERVED_PORT + 1000
    )
    for reservation in held:
        reservation.release()
        reservation.release()
