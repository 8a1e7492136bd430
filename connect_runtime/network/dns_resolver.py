"""Resolves host names on separate threads, and tries the addresses of a host in order.

The system's resolver blocks for ten seconds or more if no name server responds. Lookups run on a
few threads that are started on demand. A lookup thread wakes up the poller to pass its result to
the thread that owns the poller; everything else runs on that thread. Numeric addresses need no
lookup and no lookup thread. The last result for each name is cached, and used if a lookup fails or
takes too long.
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
from connect_runtime.network import tcp_and_tls_transport
from connect_runtime.network.tcp_and_tls_transport import Poller, SocketAddress, Transport
from connect_runtime.protocol import cluster_metadata
from connect_runtime.protocol.request_errors import ConnectionFailed, RequestFailureLayer
from connect_runtime.system.supervised_threads import ThreadGroup, UnexpectedThreadEnd

log = logging.getLogger(__name__)

_MAX_CONCURRENT_LOOKUPS = 4
"""Maximum number of concurrent lookups. Several are allowed so that an unresponsive name server
does not block other lookups."""
_MAX_PENDING_LOOKUPS = 256
_MAX_CACHED_NAMES = 1024
"""Maximum number of cached host names, enough for the brokers of a cluster. The oldest entry is
evicted first."""
_THREAD_STOP_TIMEOUT_S = 0.2
"""Time limit for stopping threads. Idle threads end immediately; lookups in the system's resolver
cannot be interrupted."""


@dataclass(frozen=True, slots=True)
class HostLookup:
    """A host name to resolve. If `canonical` is true, the canonical host name of each address is
    looked up too."""

    host: str
    port: int
    canonical: bool = False


@dataclass(frozen=True, slots=True)
class ResolvedAddress:
    """An address of a host. `name` is the host name that TLS verifies."""

    address: SocketAddress
    name: str


LookupResult: TypeAlias = list[ResolvedAddress] | ConnectionFailed
OnLookupDone: TypeAlias = Callable[[LookupResult], None]
LookUpHost: TypeAlias = Callable[[HostLookup], list[ResolvedAddress]]
"""Function that looks up a host name and blocks. Raises OSError, or ValueError for a malformed
name."""


def parse_numeric_address(question: HostLookup) -> list[ResolvedAddress] | None:
    """Return the address if the host is a numeric address; None if a lookup is needed."""
    if question.canonical:
        return None
    try:
        found = tcp_and_tls_transport.resolve_addresses(
            question.host, question.port, flags=socket.AI_NUMERICHOST
        )
    except (OSError, ValueError):
        return None
    return [ResolvedAddress(address, question.host) for address in found]


def look_up_host(question: HostLookup) -> list[ResolvedAddress]:
    """Look up all addresses of a host, in the order of the system's resolver. Blocks. Raises
    OSError, or ValueError for a malformed name."""
    found = tcp_and_tls_transport.resolve_addresses(question.host, question.port)
    if question.canonical:
        return [
            ResolvedAddress(address, tcp_and_tls_transport.look_up_canonical_name(address))
            for address in found
        ]
    return [ResolvedAddress(address, question.host) for address in found]


class HostResolver:
    """Resolves host names on separate threads, for the thread that owns the poller.

    Invariant: every lookup in `_waiting` is in `_questions`, being looked up by a thread, or in
    `_answers`.
    """

    def __init__(self, *, poller: Poller, look_up: LookUpHost = look_up_host) -> None:
        self._poller = poller
        self._look_up = look_up
        self._threads = ThreadGroup(on_unexpected_end=_log_thread_end)
        self._started = 0
        self._questions: queue.SimpleQueue[HostLookup | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[tuple[HostLookup, list[ResolvedAddress] | Exception]]
        self._answers = queue.SimpleQueue()
        self._wakeup_sockets: tuple[socket.socket, socket.socket] | None = None
        self._waiting: dict[HostLookup, list[OnLookupDone]] = {}
        self._known: dict[HostLookup, list[ResolvedAddress]] = {}
        self._stale: set[HostLookup] = set()

    def start_lookup(self, question: HostLookup, done: OnLookupDone) -> None:
        """Look up a host name. The poller calls `done` with the result unless `cancel_lookup` or
        `close` is called first.

        Identical concurrent lookups are combined. If too many lookups are pending, `done` is called
        immediately with a failure.
        """
        waiting = self._waiting.get(question)
        if waiting is not None:
            waiting.append(done)
            return
        if len(self._waiting) >= _MAX_PENDING_LOOKUPS:
            done(
                _build_lookup_failure(
                    question, f"{_MAX_PENDING_LOOKUPS} lookups are pending already"
                )
            )
            return
        if self._started < min(_MAX_CONCURRENT_LOOKUPS, len(self._waiting) + 1):
            try:
                self._start_lookup_thread()
            except (OSError, RuntimeError) as error:  # out of file descriptors or threads
                if not self._started:
                    done(_build_lookup_failure(question, str(error)))
                    return
        self._waiting[question] = [done]
        self._questions.put(question)

    def cancel_lookup(self, question: HostLookup, done: OnLookupDone) -> None:
        """Remove the callback of a lookup. The lookup continues, and its result is cached."""
        waiting = self._waiting.get(question, [])
        if done in waiting:
            waiting.remove(done)

    def get_cached_addresses(self, question: HostLookup) -> list[ResolvedAddress]:
        """Return the last result for a host name; empty if no lookup has succeeded."""
        return list(self._known.get(question, ()))

    def get_fallback_lookup_result(self, question: HostLookup) -> LookupResult:
        """Return the result for a lookup that takes too long: the cached addresses, or a failure if
        there are none."""
        return self._get_last_known_addresses(question) or _build_lookup_failure(
            question, "no response in time"
        )

    def close(self) -> None:
        """Stop the resolver without calling any callback. A blocked lookup thread ends when its
        lookup returns."""
        self._waiting.clear()
        for _ in range(self._started):
            self._questions.put(None)
        self._threads.stop_all(_THREAD_STOP_TIMEOUT_S)
        if self._wakeup_sockets is not None:
            wakeup_receiver, wakeup_socket = self._wakeup_sockets
            self._wakeup_sockets = None
            self._poller.unregister(wakeup_receiver)
            wakeup_receiver.close()
            wakeup_socket.close()

    # threads

    def _start_lookup_thread(self) -> None:
        if self._wakeup_sockets is None:
            self._wakeup_sockets = socket.socketpair()
            for end in self._wakeup_sockets:
                end.setblocking(False)
            self._poller.register(
                self._wakeup_sockets[0], tcp_and_tls_transport.READABLE, handler=self._on_wakeup
            )
        wakeup_socket = self._wakeup_sockets[
            1
        ].dup()  # its own descriptor, since it may outlive `close`
        try:
            name = f"resolver-{self._started + 1}"
            self._threads.start(name, lambda stop: self._run_lookups(wakeup_socket, stop))
        except RuntimeError:
            wakeup_socket.close()
            raise
        self._started += 1

    def _run_lookups(self, wakeup_socket: socket.socket, stop: threading.Event) -> None:
        with wakeup_socket:
            while not stop.is_set():
                question = self._questions.get()  # `close` puts one None for each thread
                if question is None:
                    stop.wait()
                    return
                try:
                    found: list[ResolvedAddress] | Exception = self._look_up(question)
                except (OSError, ValueError) as error:
                    found = error
                self._answers.put((question, found))
                _wake_poller(wakeup_socket)

    # results

    def _on_wakeup(self, _mask: int) -> None:
        assert self._wakeup_sockets is not None
        _drain_wakeups(self._wakeup_sockets[0])
        while self._wakeup_sockets is not None:  # a callback may close this resolver
            try:
                question, found = self._answers.get_nowait()
            except queue.Empty:
                return
            answer = self._store_result(question, found)
            for done in self._waiting.pop(question, []):
                done(answer)

    def _store_result(
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
            known = self._get_last_known_addresses(
                question
            )  # a temporary failure: the name may still exist
            if known:
                return known
        said = (found.strerror if isinstance(found, OSError) else None) or str(found)
        return _build_lookup_failure(question, said)

    def _get_last_known_addresses(self, question: HostLookup) -> list[ResolvedAddress]:
        known = self.get_cached_addresses(question)
        if known and question not in self._stale:
            self._stale.add(question)
            log.warning(
                "%s: the name server does not respond; using the previous address, %s",
                cluster_metadata.format_address(question.host, question.port),
                ", ".join(str(place.address[1][0]) for place in known),
            )
        return known


def _build_lookup_failure(question: HostLookup, said: str) -> ConnectionFailed:
    address = cluster_metadata.format_address(question.host, question.port)
    problem = f"the host name cannot be resolved: {said}"
    return ConnectionFailed(address, problem, layer=RequestFailureLayer.DNS)


def _wake_poller(wakeup_socket: socket.socket) -> None:
    try:
        wakeup_socket.send(b"!")
    except BlockingIOError:
        pass  # wake-ups are pending, so the poller will wake up
    except OSError:
        pass  # closed in the meantime


def _drain_wakeups(wakeup_receiver: socket.socket) -> None:
    try:
        while wakeup_receiver.recv(4096):
            pass
    except BlockingIOError:
        pass


def _log_thread_end(end: UnexpectedThreadEnd) -> None:
    log.error("thread %s ended: %s", end.name, end.error)


_MAX_ADDRESS_ATTEMPT_S = 3.0
"""Maximum time to connect to one of several addresses of a host. With many addresses, each has less
time so that all can be tried."""
_MAX_RESOLVE_WAIT_S = 2.0
"""Maximum time to wait for a host name lookup in seconds, if the result of an earlier lookup is
cached."""


class ConnectAttempts:
    """Tries to connect to the addresses of one host, in order.

    Call `resolve_addresses` first, then `connect_to_next_address` for every attempt, and `close`
    when giving up.
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
        self._on_resolved: Callable[[], None] | None = None
        self._ends_s = math.inf
        self.attempt_ends_s = math.inf
        """Monotonic time at which the current connection attempt or lookup times out; infinity if
        there is no time limit."""

    def resolve_addresses(
        self, now_s: float, *, ends_s: float, resolved: Callable[[], None]
    ) -> None:
        """Look up the host's addresses. Always calls `resolved`, possibly before this method
        returns.

        If the lookup is still pending at the time `attempt_ends_s`, the caller must call
        `connect_to_next_address`. It then uses cached addresses.
        """
        self._ends_s = ends_s
        found = parse_numeric_address(self._question)
        if found is not None:
            self._places = deque(found)
            resolved()
            return
        self.attempt_ends_s = ends_s
        if self._names.get_cached_addresses(self._question):
            self.attempt_ends_s = now_s + min(_MAX_RESOLVE_WAIT_S, (ends_s - now_s) / 2)
        self._on_resolved = resolved
        self._names.start_lookup(self._question, self._on_lookup_done)

    def connect_to_next_address(self, now_s: float, failed: Exception) -> Transport | Exception:
        """Start connecting to the host's next address. `failed` is the error of the previous
        attempt.

        Returns the last error instead of a transport if no address or no time is left.
        """
        if self._on_resolved is not None:
            self.close()
            self._apply_lookup_result(self._names.get_fallback_lookup_result(self._question))
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

    def on_connected(self) -> None:
        """Stop enforcing the connect timeout, because the connection is established."""
        self.attempt_ends_s = math.inf

    def close(self) -> None:
        """Cancel the pending lookup, if any."""
        if self._on_resolved is not None:
            self._on_resolved = None
            self._names.cancel_lookup(self._question, self._on_lookup_done)

    def _on_lookup_done(self, answer: LookupResult) -> None:
        resolved, self._on_resolved = self._on_resolved, None
        self._apply_lookup_result(answer)
        if resolved is not None:
            resolved()

    def _apply_lookup_result(self, answer: LookupResult) -> None:
        if isinstance(answer, ConnectError):
            self._unresolved = answer
        else:
            self._places = deque(answer)
