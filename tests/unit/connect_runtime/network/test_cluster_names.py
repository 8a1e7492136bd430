"""Bootstrap names while the system's resolver hangs, in real time."""

from __future__ import annotations

import random
import socket
import threading

import pytest

from connect_runtime.network.cluster_connections import ClusterConnections, ConnectionSettings
from connect_runtime.network.tcp_and_tls_transport import Poller
from connect_runtime.protocol.request_builders import AnyNodeTarget
from connect_runtime.system import system_clock
from connect_runtime.system.system_clock import SystemClock
from tests.support import init_calls
from tests.support.init_calls import Replies
from tests.support.scripted_broker import ScriptedBroker

CLOCK = SystemClock()


class HangingNames:
    """`getaddrinfo` whose name "away.test" hangs until `gate` is set; `asked_on` which threads."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.asked_on: list[str] = []
        self._real = socket.getaddrinfo

    def getaddrinfo(self, host, *args, **options):
        if host != "away.test" or options.get("flags", 0) & socket.AI_NUMERICHOST:
            return self._real(host, *args, **options)
        self.asked_on.append(threading.current_thread().name)
        self.gate.wait(2.0)
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")


@pytest.fixture
def hanging(monkeypatch):
    names = HangingNames()
    monkeypatch.setattr(socket, "getaddrinfo", names.getaddrinfo)
    yield names
    names.gate.set()


class Loop:
    """A cluster's connections and the loop that moves them."""

    def __init__(self, *names: str, beside: bool = True) -> None:
        self.poller = Poller()
        self.broker = ScriptedBroker(self.poller, node_id=1)
        self.broker.scripts["init_producer_id"] = init_calls.answer_init
        bootstrap = (*names, self.broker.address) if beside else names
        self.link = ClusterConnections(
            ConnectionSettings(bootstrap=bootstrap),
            poller=self.poller,
            clock=CLOCK,
            random=random.Random(3),
        )

    def turned(self, done) -> bool:
        """One round of the loop; has it come to what was waited for?"""
        self.poller.poll(min(0.02, self.link.tick(CLOCK.now_s())))
        return bool(done())

    def until(self, done) -> None:
        assert system_clock.wait_until(lambda: self.turned(done), timeout_s=10.0, interval_s=0.0)

    def close(self) -> None:
        self.link.close()
        self.broker.close()
        self.poller.close()


def asked(loop: Loop, **options):
    replies = Replies()
    loop.link.call(AnyNodeTarget(), init_calls.init(), done=replies.append, **options)
    loop.until(lambda: replies)
    return replies[0]


def test_a_resolver_that_hangs_holds_up_no_broker_whose_address_is_known(hanging):
    loop = Loop("away.test:9092")
    for lane in ("control", "other"):
        for node_id in (-2, -3):  # in what order they are is left to chance
            loop.link.get_broker_connection(node_id, lane).request_connection()
    loop.until(lambda: hanging.asked_on)
    assert asked(loop).failure is None
    assert asked(loop).failure is None
    assert hanging.asked_on == ["resolver-1"], "never on the loop's own thread, and once"
    loop.close()


def test_addresses_in_digits_need_no_thread(hanging):
    before = threading.enumerate()  # a thread of an earlier test may still be ending
    loop = Loop()
    assert asked(loop).failure is None
    started = [each for each in threading.enumerate() if each not in before]
    loop.close()
    assert not [each for each in started if each.name.startswith("resolver-")]


def test_a_name_that_does_not_resolve_is_said_so(hanging):
    hanging.gate.set()
    loop = Loop("away.test:9092", beside=False)
    assert "away.test:9092: the host name cannot be resolved" in str(
        asked(loop, timeout_s=0.5).failure
    )
    loop.close()
