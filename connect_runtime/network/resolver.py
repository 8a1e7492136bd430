"""Resolves host names on threads of its own, and tries the addresses of a host one after the other.

The system's resolver blocks, for ten seconds and more while no name server answers. Lookups run on
a few owned threads that start with the first name; a wake-up in the poller hands their results to
the loop's thread, where everything else happens. A numeric address needs no lookup and no thread.
The last result for each name is kept and used when a lookup fails or takes too long.
"""

from __future__ import annotations

import logging
import math
import queue
import socket
import ssl
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from connect_runtime.base.errors import ConnectError
from connect_runtime.network import transport
from connect_runtime.network.transport import Poller, SocketAddress, Transport
from connect_runtime.protocol import cluster_metadata
from connect_runtime.protocol.request_errors import ConnectionFailed, FailureLayer
from connect_runtime.system.threads import ThreadDied, ThreadGroup

log = logging.getLogger(__name__)

_MAX_CONCURRENT_LOOKUPS = 4
"""Look-ups side by side: a name whose server is away leaves room for others."""
_MAX_PENDING_LOOKUPS = 256
_MAX_CACHED_NAMES = 1024
"""Names, as many as clusters have brokers; beyond these the oldest is forgotten."""
_THREAD_STOP_TIMEOUT_S = 0.2
"""Who waits for a question ends at once; who waits for the system's resolver cannot be helped."""


@dataclass(frozen=True, slots=True)
class HostLookup:
    """`canonical`: each address is called by its own entry, not by the host's name."""

    host: str
    port: int
    canonical: bool = False


@dataclass(frozen=True, slots=True)
class ResolvedAddress:
    """`name` is what TLS checks the certificate against."""

    address: SocketAddress
    name: str


LookupResult: TypeAlias = list[ResolvedAddress] | ConnectionFailed
OnLookupDone: TypeAlias = Callable[[LookupResult], None]
LookUpHost: TypeAlias = Callable[[HostLookup], list[ResolvedAddress]]
"""Blocks as long as the system does. Raises OSError, ValueError (no name could be like that)."""


def parse_numeric_address(question: HostLookup) -> list[ResolvedAddress] | None:
    """The place of an address in digits; None: somebody has to be asked."""
    if question.canonical:
        return None
    try:
        found = transport.resolve_addresses(
            question.host, question.port, flags=socket.AI_NUMERICHOST
        )
    except (OSError, ValueError):
        return None
    return [ResolvedAddress(address, question.host) for address in found]


def look_up_host(question: HostLookup) -> list[ResolvedAddress]:
    """All addresses, in the system's order; as `LookUpHost`."""
    found = transport.resolve_addresses(question.host, question.port)
    if question.canonical:
        return [
            ResolvedAddress(address, transport.look_up_canonical_name(address)) for address in found
        ]
    return [ResolvedAddress(address, question.host) for address in found]


class HostResolver:
    """Invariant: a question in `_waiting` is in `_questions`, with a thread, or in `_answers`."""

    def __init__(self, *, poller: Poller, look_up: LookUpHost = look_up_host) -> None:
        self._poller = poller
        self._look_up = look_up
        self._threads = ThreadGroup(on_unasked_end=_log_thread_end)
        self._started = 0
        self._questions: queue.SimpleQueue[HostLookup | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[tuple[HostLookup, list[ResolvedAddress] | Exception]]
        self._answers = queue.SimpleQueue()
        self._bell: tuple[socket.socket, socket.socket] | None = None
        self._waiting: dict[HostLookup, list[OnLookupDone]] = {}
        self._known: dict[HostLookup, list[ResolvedAddress]] = {}
        self._stale: set[HostLookup] = set()

    def ask(self, question: HostLookup, done: OnLookupDone) -> None:
        """Look it up; `done` is called by the poller, unless `leave` or `close` come first.

        A question that is under way already is not asked twice; one too many is answered at once.
        """
        waiting = self._waiting.get(question)
        if waiting is not None:
            waiting.append(done)
            return
        if len(self._waiting) >= _MAX_PENDING_LOOKUPS:
            done(
                _make_lookup_failure(question, f"{_MAX_PENDING_LOOKUPS} others are being looked up")
            )
            return
        if self._started < min(_MAX_CONCURRENT_LOOKUPS, len(self._waiting) + 1):
            try:
                self._start_thread()
            except (OSError, RuntimeError) as error:  # no descriptors, or no threads, are left
                if not self._started:
                    done(_make_lookup_failure(question, str(error)))
                    return
        self._waiting[question] = [done]
        self._questions.put(question)

    def leave(self, question: HostLookup, done: OnLookupDone) -> None:
        """Whoever asked does not wait any more; the look-up goes on, for who asks next."""
        waiting = self._waiting.get(question, [])
        if done in waiting:
            waiting.remove(done)

    def known(self, question: HostLookup) -> list[ResolvedAddress]:
        """What it stood for when it was last looked up; empty if that never succeeded."""
        return list(self._known.get(question, ()))

    def given_up(self, question: HostLookup) -> LookupResult:
        """What to go on with when there is no answer in time."""
        return self._last_known(question) or _make_lookup_failure(question, "no answer in time")

    def close(self) -> None:
        """Nobody is called from here on. A thread that hangs in the system ends when that does."""
        self._waiting.clear()
        for _ in range(self._started):
            self._questions.put(None)
        self._threads.stop_all(_THREAD_STOP_TIMEOUT_S)
        if self._bell is not None:
            heard, rung = self._bell
            self._bell = None
            self._poller.unregister(heard)
            heard.close()
            rung.close()

    # threads

    def _start_thread(self) -> None:
        if self._bell is None:
            self._bell = socket.socketpair()
            for end in self._bell:
                end.setblocking(False)
            self._poller.register(self._bell[0], transport.READABLE, handler=self._on_bell)
        rung = self._bell[1].dup()  # its own: it may outlive `close`
        try:
            name = f"resolver-{self._started + 1}"
            self._threads.start(name, lambda stop: self._serve(rung, stop))
        except RuntimeError:
            rung.close()
            raise
        self._started += 1

    def _serve(self, rung: socket.socket, stop: threading.Event) -> None:
        with rung:
            while not stop.is_set():
                question = self._questions.get()  # `close` puts one None for each of us
                if question is None:
                    stop.wait()
                    return
                try:
                    found: list[ResolvedAddress] | Exception = self._look_up(question)
                except (OSError, ValueError) as error:
                    found = error
                self._answers.put((question, found))
                _wake_poller(rung)

    # answers

    def _on_bell(self, _mask: int) -> None:
        assert self._bell is not None
        _drain_wakeups(self._bell[0])
        while self._bell is not None:  # somebody who is told may close this
            try:
                question, found = self._answers.get_nowait()
            except queue.Empty:
                return
            answer = self._judged(question, found)
            for done in self._waiting.pop(question, []):
                done(answer)

    def _judged(
        self, question: HostLookup, found: list[ResolvedAddress] | Exception
    ) -> LookupResult:
        if isinstance(found, list):
            self._known.pop(question, None)
            self._known[question] = found
            if len(self._known) > _MAX_CACHED_NAMES:
                del self._known[next(iter(self._known))]
            self._stale.discard(question)
            return found
        if isinstance(found, socket.gaierror) and found.errno == socket.EAI_AGAIN:
            known = self._last_known(question)  # nobody says that the name is gone
            if known:
                return known
        said = (found.strerror if isinstance(found, OSError) else None) or str(found)
        return _make_lookup_failure(question, said)

    def _last_known(self, question: HostLookup) -> list[ResolvedAddress]:
        known = self.known(question)
        if known and question not in self._stale:
            self._stale.add(question)
            log.warning(
                "%s: the resolver does not answer; going on with the address of before, %s",
                cluster_metadata.format_address(question.host, question.port),
                ", ".join(str(place.address[1][0]) for place in known),
            )
        return known


def _make_lookup_failure(question: HostLookup, said: str) -> ConnectionFailed:
    address = cluster_metadata.format_address(question.host, question.port)
    problem = f"the host name does not resolve: {said}"
    return ConnectionFailed(address, problem, layer=FailureLayer.DNS)


def _wake_poller(rung: socket.socket) -> None:
    try:
        rung.send(b"!")
    except BlockingIOError:
        pass  # full of rings that nobody has heard yet: they do
    except OSError:
        pass  # closed meanwhile: nobody waits


def _drain_wakeups(heard: socket.socket) -> None:
    try:
        while heard.recv(4096):
            pass
    except BlockingIOError:
        pass


def _log_thread_end(end: ThreadDied) -> None:
    log.error("thread %s ended: %s", end.name, end.error)


_MAX_ADDRESS_ATTEMPT_S = 3.0
"""If a host has several addresses, one that does not answer may not use up the whole deadline.

Of many addresses each gets less, so that all are tried in time.
"""
_MAX_RESOLVE_WAIT_S = 2.0
"""So long an answer of the resolver is waited for if an older one can serve."""


class ConnectAttempts:
    """`resolve` first, then `next_transport` for every try; `close` when nobody wants it any more.

    `canonical`: an address is called by its own name, not by the host's: TLS then checks that one.
    `attempt_ends_s`: when the try under way has failed, or the wait for addresses is over
    (monotonic seconds), infinity for none.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        names: HostResolver,
        tls: ssl.SSLContext | None,
        buffer_bytes: int | None,
        canonical: bool = False,
    ) -> None:
        self.address = cluster_metadata.format_address(host, port)
        self._question = HostLookup(host, port, canonical)
        self._names = names
        self._tls = tls
        self._buffer_bytes = buffer_bytes
        self._places: deque[ResolvedAddress] = deque()
        self._unresolved: ConnectError | None = None
        self._asking: Callable[[], None] | None = None
        self._ends_s = math.inf
        self.attempt_ends_s = math.inf

    def resolve(self, now_s: float, *, ends_s: float, resolved: Callable[[], None]) -> None:
        """Find the addresses; `resolved` is called once there are some or none, also from here.

        It is called by the poller, or not at all: whoever waited for it until `attempt_ends_s`
        goes on with `next_transport`, which takes the addresses of before.
        """
        self._ends_s = ends_s
        found = parse_numeric_address(self._question)
        if found is not None:
            self._places = deque(found)
            resolved()
            return
        self.attempt_ends_s = ends_s
        if self._names.known(self._question):
            self.attempt_ends_s = now_s + min(_MAX_RESOLVE_WAIT_S, (ends_s - now_s) / 2)
        self._asking = resolved
        self._names.ask(self._question, self._answered)

    def next_transport(self, now_s: float, failed: Exception) -> Transport | Exception:
        """Begin to connect to the next address; `failed` is what became of the one before.

        The last failure once no address or no time is left; a ConnectError says all by itself.
        """
        if self._asking is not None:
            self.close()
            self._take(self._names.given_up(self._question))
        while self._places and now_s < self._ends_s:
            place = self._places.popleft()
            try:
                found = Transport(
                    place.address,
                    host=place.name,
                    context=self._tls,
                    buffer_bytes=self._buffer_bytes,
                )
            except OSError as refused:
                failed = refused
                continue
            left_s = self._ends_s - now_s
            share_s = min(_MAX_ADDRESS_ATTEMPT_S, left_s / (len(self._places) + 1))
            self.attempt_ends_s = now_s + share_s if self._places else self._ends_s
            return found
        return self._unresolved or failed

    def connected(self) -> None:
        """Bytes can flow."""
        self.attempt_ends_s = math.inf

    def close(self) -> None:
        """Nobody is told of addresses any more."""
        if self._asking is not None:
            self._asking = None
            self._names.leave(self._question, self._answered)

    def _answered(self, answer: LookupResult) -> None:
        resolved, self._asking = self._asking, None
        self._take(answer)
        if resolved is not None:
            resolved()

    def _take(self, answer: LookupResult) -> None:
        if isinstance(answer, ConnectError):
            self._unresolved = answer
        else:
            self._places = deque(answer)
