"""Host names to addresses, off the loop: a resolver that is away holds up nobody but who asked.

The system's resolver blocks, for ten seconds and more while no name server answers. So names are
looked up on a few owned threads, which start with the first name; a bell in the poller hands their
answers over, and everything but the look-up itself happens on the loop's thread. An address in
digits needs no look-up (`literal`), and so no thread. What a name stood for last is kept: whoever
waits in vain may go on with that.
"""

from __future__ import annotations

import logging
import queue
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from connect_runtime.system import threads
from connect_runtime.wire.codec import cluster_view, failures
from connect_runtime.wire.connection import poller, transport

log = logging.getLogger(__name__)

_AT_ONCE = 4
"""Look-ups side by side: a name whose server is away leaves room for others."""
_UNDER_WAY_MAX = 256
_KNOWN_MAX = 1024
"""Names, as many as clusters have brokers; beyond these the oldest is forgotten."""
_END_S = 0.2
"""Who waits for a question ends at once; who waits for the system's resolver cannot be helped."""


@dataclass(frozen=True, slots=True)
class Question:
    """`canonical`: each address is called by its own entry, not by the host's name."""

    host: str
    port: int
    canonical: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """`name` is what TLS checks the certificate against."""

    address: transport.Address
    name: str


Answer: TypeAlias = list[Place] | failures.ConnectionFailed
Done: TypeAlias = Callable[[Answer], None]
LookUp: TypeAlias = Callable[[Question], list[Place]]
"""Blocks as long as the system does. Raises OSError, ValueError (no name could be like that)."""


def literal(question: Question) -> list[Place] | None:
    """The place of an address in digits; None: somebody has to be asked."""
    if question.canonical:
        return None
    try:
        found = transport.resolve(question.host, question.port, flags=socket.AI_NUMERICHOST)
    except (OSError, ValueError):
        return None
    return [Place(address, question.host) for address in found]


def look_up(question: Question) -> list[Place]:
    """All addresses, in the system's order; as `LookUp`."""
    found = transport.resolve(question.host, question.port)
    if question.canonical:
        return [Place(address, transport.canonical_name(address)) for address in found]
    return [Place(address, question.host) for address in found]


class Resolver:
    """Invariant: a question in `_waiting` is in `_questions`, with a thread, or in `_answers`."""

    def __init__(self, *, poller: poller.Poller, look_up: LookUp = look_up) -> None:
        self._poller = poller
        self._look_up = look_up
        self._threads = threads.Threads(on_unasked_end=_log_end)
        self._started = 0
        self._questions: queue.SimpleQueue[Question | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[tuple[Question, list[Place] | Exception]]
        self._answers = queue.SimpleQueue()
        self._bell: tuple[socket.socket, socket.socket] | None = None
        self._waiting: dict[Question, list[Done]] = {}
        self._known: dict[Question, list[Place]] = {}
        self._stale: set[Question] = set()

    def ask(self, question: Question, done: Done) -> None:
        """Look it up; `done` is called by the poller, unless `leave` or `close` come first.

        A question that is under way already is not asked twice; one too many is answered at once.
        """
        waiting = self._waiting.get(question)
        if waiting is not None:
            waiting.append(done)
            return
        if len(self._waiting) >= _UNDER_WAY_MAX:
            done(_failed(question, f"{_UNDER_WAY_MAX} others are being looked up"))
            return
        if self._started < min(_AT_ONCE, len(self._waiting) + 1):
            try:
                self._start_thread()
            except (OSError, RuntimeError) as error:  # no descriptors, or no threads, are left
                if not self._started:
                    done(_failed(question, str(error)))
                    return
        self._waiting[question] = [done]
        self._questions.put(question)

    def leave(self, question: Question, done: Done) -> None:
        """Whoever asked does not wait any more; the look-up goes on, for who asks next."""
        waiting = self._waiting.get(question, [])
        if done in waiting:
            waiting.remove(done)

    def known(self, question: Question) -> list[Place]:
        """What it stood for when it was last looked up; empty if that never succeeded."""
        return list(self._known.get(question, ()))

    def given_up(self, question: Question) -> Answer:
        """What to go on with when there is no answer in time."""
        return self._last_known(question) or _failed(question, "no answer in time")

    def close(self) -> None:
        """Nobody is called from here on. A thread that hangs in the system ends when that does."""
        self._waiting.clear()
        for _ in range(self._started):
            self._questions.put(None)
        self._threads.stop_all(_END_S)
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
            self._poller.register(self._bell[0], poller.READ, handler=self._on_bell)
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
                    found: list[Place] | Exception = self._look_up(question)
                except (OSError, ValueError) as error:
                    found = error
                self._answers.put((question, found))
                _ring(rung)

    # answers

    def _on_bell(self, _mask: int) -> None:
        assert self._bell is not None
        _silence(self._bell[0])
        while self._bell is not None:  # somebody who is told may close this
            try:
                question, found = self._answers.get_nowait()
            except queue.Empty:
                return
            answer = self._judged(question, found)
            for done in self._waiting.pop(question, []):
                done(answer)

    def _judged(self, question: Question, found: list[Place] | Exception) -> Answer:
        if isinstance(found, list):
            self._known.pop(question, None)
            self._known[question] = found
            if len(self._known) > _KNOWN_MAX:
                del self._known[next(iter(self._known))]
            self._stale.discard(question)
            return found
        if isinstance(found, socket.gaierror) and found.errno == socket.EAI_AGAIN:
            known = self._last_known(question)  # nobody says that the name is gone
            if known:
                return known
        said = (found.strerror if isinstance(found, OSError) else None) or str(found)
        return _failed(question, said)

    def _last_known(self, question: Question) -> list[Place]:
        known = self.known(question)
        if known and question not in self._stale:
            self._stale.add(question)
            log.warning(
                "%s: the resolver does not answer; going on with the address of before, %s",
                cluster_view.format_address(question.host, question.port),
                ", ".join(str(place.address[1][0]) for place in known),
            )
        return known


def _failed(question: Question, said: str) -> failures.ConnectionFailed:
    address = cluster_view.format_address(question.host, question.port)
    problem = f"the host name does not resolve: {said}"
    return failures.ConnectionFailed(address, problem, layer=failures.Layer.DNS)


def _ring(rung: socket.socket) -> None:
    try:
        rung.send(b"!")
    except BlockingIOError:
        pass  # full of rings that nobody has heard yet: they do
    except OSError:
        pass  # closed meanwhile: nobody waits


def _silence(heard: socket.socket) -> None:
    try:
        while heard.recv(4096):
            pass
    except BlockingIOError:
        pass


def _log_end(end: threads.UnaskedEnd) -> None:
    log.error("thread %s ended: %s", end.name, end.error)
