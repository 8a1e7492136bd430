"""Why clusters cannot be reached, known within seconds.

The Kafka library retries in silence and names a cause only when a request's time is up, a minute
later. Here each cluster is asked for its metadata over connections of our own, which know the
cause of every failed attempt at once.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from random import Random

from connect_runtime.base import clock as base_clock
from connect_runtime.base import errors
from connect_runtime.kafka_client import access as kafka_access
from connect_runtime.wire.codec import failures, messages, targets
from connect_runtime.wire.connection import calls, cluster, poller

WITHIN_S = 4.0
"""A broker that has not answered by then is reported as silent. It is still asked."""
AGAIN_S = 1.0
AFTER_ANSWER_S = 3.0
REMEDY = "diagnose with: mm2 check"
_STAGES = (" while connecting", " while opening")


class ClusterProbe:
    """Asks one cluster for its metadata, again and again; one thread.

    The second question goes to a broker's advertised address, so that a listener which cannot be
    reached from here is found, too. `trouble`: why there is no answer, None while there is one, or
    the first attempt is under way. Raises `ConnectError` for settings that cannot be honoured.
    """

    def __init__(
        self, access: kafka_access.Access, *, clock: base_clock.Clock, random: Random
    ) -> None:
        self.answered = False
        self.trouble: errors.ConnectError | None = None
        self._bootstrap = access.bootstrap
        self._clock = clock
        self._asked = False
        self._ask_at_s = -math.inf
        self._poller = poller.Poller()
        options = dataclasses.replace(
            access.connection("mm2-reach"),
            connect_timeout_s=WITHIN_S,
            request_timeout_s=WITHIN_S,
            quiet=True,
        )
        try:
            self._connections = cluster.ClusterConnections(
                options, poller=self._poller, clock=clock, random=random
            )
        except ValueError as error:
            self._poller.close()
            raise errors.FatalError(f"bootstrap.servers: {error}") from error
        except BaseException:
            self._poller.close()
            raise

    def tick(self) -> None:
        """Move what can move, without waiting."""
        now_s = self._clock.now_s()
        if not self._asked and now_s >= self._ask_at_s:
            self._asked = True
            self._connections.call(
                targets.AnyNode(), messages.metadata(()), done=self._replied, timeout_s=WITHIN_S
            )
        self._connections.tick(now_s)
        self._poller.poll(0.0)
        if self._asked and not self._connections.view.brokers:
            trouble = first_trouble(self._connections.troubles(), self._bootstrap)
            if trouble is not None:
                self._failed(trouble)

    def close(self) -> None:
        self._connections.close()
        self._poller.close()

    def _replied(self, reply: calls.Reply) -> None:
        self._asked = False
        now_s = self._clock.now_s()
        if reply.failure is None:
            self.answered, self.trouble = True, None
            self._ask_at_s = now_s + AFTER_ANSWER_S
        else:
            troubles = self._connections.troubles()
            self._failed(first_trouble(troubles, self._bootstrap) or reply.failure)
            self._ask_at_s = now_s + AGAIN_S

    def _failed(self, failure: errors.ConnectError) -> None:
        self.answered, self.trouble = False, failure


def cause(failure: errors.ConnectError, bootstrap: Sequence[str]) -> str:
    """`connection refused (127.0.0.1:9092), retrying`."""
    address = ""
    match failure:
        case failures.ConnectionFailed():
            text, address = failure.cause, failure.address
        case failures.AuthenticationFailed():
            text, address = failure.problem, failure.address
        case failures.RequestTimedOut():
            return no_answer(bootstrap)
        case _:
            text = str(failure)
    for stage in _STAGES:
        text = text.replace(stage, "")
    if text.endswith(" in time"):
        return no_answer(bootstrap)
    if text[:2].istitle():
        text = text[0].lower() + text[1:]
    where = address if address and address not in bootstrap else ",".join(bootstrap)
    retrying = "" if isinstance(failure, errors.FatalError) else ", retrying"
    return f"{text} ({where}){retrying}"


def no_answer(bootstrap: Sequence[str]) -> str:
    """Of a cluster that accepts connections, or swallows them, and never answers."""
    return f"no answer within {WITHIN_S:g} s ({','.join(bootstrap)}), retrying"


def first_trouble(
    troubles: Mapping[str, errors.ConnectError], bootstrap: Sequence[str]
) -> errors.ConnectError | None:
    """Why no broker can be reached; None while an address is still being tried. Until the first
    answer `troubles` are by bootstrap address, then by broker."""
    if any(each in bootstrap for each in troubles):
        return troubles[bootstrap[0]] if all(each in troubles for each in bootstrap) else None
    return next(iter(troubles.values()), None)
