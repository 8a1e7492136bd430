"""Who makes room on a server that has too many connections."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.base import connection_limits
from connect_runtime.base.connection_limits import ClientConnectionLimits, OpenConnections

LIMITS = ClientConnectionLimits(total=4, per_address=2, loopback=2)


class Held:
    """Connections are called by their number, addresses by a letter; "l" is this machine."""

    def __init__(self) -> None:
        self.connections = OpenConnections[int](LIMITS)

    def admit(self, number: int, of: str) -> int | None:
        host = "127.0.0.1" if of == "l" else f"10.0.0.{ord(of)}"
        closed = self.connections.admit_connection(number, host)
        self.connections.check_invariants()
        return closed


@pytest.fixture
def held() -> Held:
    return Held()


@pytest.mark.parametrize(
    ("host", "client"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("127.0.0.9", connection_limits.LOOPBACK),
        ("::1", connection_limits.LOOPBACK),
        ("::ffff:127.0.0.1", connection_limits.LOOPBACK),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_whose_a_connection_is(host, client):
    assert connection_limits.get_client_network(host) == client


def test_an_address_that_has_too_many_loses_the_one_waited_for_longest(held):
    assert [held.admit(number, "a") for number in (1, 2)] == [None, None]
    assert held.admit(3, "a") == 1
    assert held.admit(4, "b") is None


def test_when_all_is_full_whoever_has_most_makes_room(held):
    for number, of in enumerate("abbc"):
        held.admit(number, of)
    assert held.admit(9, "d") == 1


def test_a_connection_that_is_being_answered_stays(held):
    for number in (1, 2):
        held.admit(number, "a")
    held.connections.mark_connection_busy(1)
    assert held.admit(3, "a") == 2
    held.connections.mark_connection_busy(3)
    assert held.admit(4, "a") == 4, "the newcomer goes"
    held.connections.mark_connection_idle(1)
    assert held.admit(5, "a") == 1


def test_strangers_cannot_keep_out_this_machine(held):
    for number, of in enumerate("abcd"):
        held.admit(number, of)
        held.connections.mark_connection_busy(number)
    assert held.admit(9, "e") == 9
    assert held.admit(10, "l") is None
    assert held.admit(11, "l") is None
    assert held.admit(12, "l") == 10


@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                [
                    "admit_connection",
                    "mark_connection_busy",
                    "mark_connection_idle",
                    "remove_connection",
                ]
            ),
            st.integers(0, 12),
        ),
        max_size=60,
    )
)
def test_the_limits_hold_whatever_happens(steps):
    held = Held()
    for number, (what, which) in enumerate(steps):
        if what == "admit_connection":
            held.admit(100 + number, "abcdl"[which % 5])
        else:
            known = [*held.connections._client]
            if known:
                getattr(held.connections, what)(known[which % len(known)])
        held.connections.check_invariants()
