"""One worker of a fleet: all of a worker but its REST servers, which the fleet has for all."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import random
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib import parse

from connect_runtime.adapters.http import peers as http_peers
from connect_runtime.app import distributed, worker_core
from connect_runtime.app.settings import distributed as distributed_settings
from connect_runtime.base import errors, metrics
from connect_runtime.core.assignment import protocol, work
from connect_runtime.core.herder import session_keys
from connect_runtime.core.state import status_records
from connect_runtime.kafka_client import group_calls
from connect_runtime.ports import peers as peers_port
from connect_runtime.rest import app as rest_app
from connect_runtime.rest import https as rest_https
from connect_runtime.rest import namespaces
from connect_runtime.rest import settings as rest_settings
from connect_runtime.runtime import begun
from connect_runtime.runtime.herding import herder as herders
from connect_runtime.system import clock
from connect_runtime.wire.codec import group_requests, targets

_LOG = logging.getLogger(__name__)

_CLOCK = clock.SystemClock()
_API = rest_settings.RestSettings()
"""What is served where; the listeners are the fleet's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a fleet gives a worker: its address, and both servers' namespaces.

    `shared` None: nobody outside this process asks it anything, nor does it ask anybody.
    """

    url: str
    worker_id: str
    https: rest_https.Https | None
    shared: namespaces.Namespaces | None
    own: namespaces.Namespaces


GROUP_S = 3.0
"""What looking for other members may take."""


def at_once(_: Callable[[], bool]) -> None:
    """Whoever has joined already, there is nothing to wait for."""


def ignore(_: str) -> None:
    """Nobody shows what keeps the worker from starting."""


class Member:
    """`start`, then `stop`, once, by one thread; the rest by any."""

    def __init__(
        self,
        settings: distributed_settings.Settings,
        *,
        namespace: namespaces.Namespace,
        prefix: str,
        place: Place,
        on_leading: Callable[[Member], None],
        before_joining: Callable[[Callable[[], bool]], None],
        on_trouble: Callable[[str], None] = ignore,
    ) -> None:
        """See `fleet.Fleet.member`."""
        self.namespace = namespace
        self._prefix = prefix
        self._settings = settings
        self._place = place
        self._served: list[Callable[[], None]] = []
        self._core = worker_core.WorkerCore(
            functools.partial(_kind, settings, before_joining, on_trouble),
            on_leading=lambda: on_leading(self),
        )

    def start(self) -> None:
        """Read the internal topics, look for the group. Raises `ConnectError`, and then nothing is
        left running: to try again, make another."""
        place, core = self._place, self._core
        try:
            core.reach()
            peers = None if place.shared is None else self._peers()
            parts = core.assemble(
                worker_core.Home(worker_id=place.worker_id, url=place.url, peers=peers)
            )
            self._served.append(place.own.put(self.namespace, rest_app.build(parts, _API).main))
            if place.shared is not None:
                keys = self._settings.herder.session_keys
                shared = rest_app.build_internal(
                    parts,
                    _API,
                    keys,
                    receiver=place.url,
                    must_be_signed=self._settings.offers is protocol.Protocol.SESSIONED,
                )
                self._served.append(place.shared.put(self.namespace, shared))
            core.begin()
        except BaseException:
            self.stop()
            raise

    @property
    def herder(self) -> herders.Herder:
        """What can be asked of it: configurations, statuses, requests. Once started."""
        assert self._core.herder is not None, "start comes first"
        return self._core.herder

    @property
    def leads(self) -> bool:
        """Is it its group's leader, as of the last round?"""
        return self._core.leads

    @property
    def leader_url(self) -> str:
        """Where the leader of the last round is reached; "" before, and where nobody is."""
        url = self._core.leader_url
        return url if "://" in url else ""

    @property
    def assigned(self) -> work.Work:
        """What it was given to run in the last round."""
        return self._core.assigned

    @property
    def assigned_offset(self) -> int:
        """The offset of the configuration that the last round handed out; -1 before."""
        return self._core.assigned_offset

    @property
    def begun(self) -> Mapping[status_records.Subject, begun.Begun]:
        """What it has begun, with which configurations, and what these have said since."""
        return self._core.begun

    @property
    def failure(self) -> str | None:
        """Why it ended by itself."""
        return self._core.failure

    @property
    def published(self) -> tuple[metrics.Family, ...]:
        """All that is measured of it, its plugins' metrics included, as of now."""
        return () if self._core.metrics is None else self._core.metrics.published

    @property
    def own_metrics(self) -> tuple[metrics.Family, ...]:
        """What is measured of it alone, as of now."""
        return () if self._core.metrics is None else self._core.metrics.own

    @property
    def rebalances(self) -> int:
        """How many of its group's it took part in."""
        return 0 if self._core.metrics is None else self._core.metrics.rebalances()

    def wait(self, timeout_s: float) -> bool:
        """Has it ended by itself? `failure` then says why."""
        return self._core.wait(timeout_s)

    def stop(self) -> None:
        """Stop all work, leave the group, let go. Again: nothing happens."""
        with contextlib.ExitStack() as last_first:
            last_first.callback(self._core.stop)
            for leave in self._served:
                last_first.callback(leave)

    def _peers(self) -> http_peers.NamespacedPeers:
        https = self._place.https
        plain = http_peers.HttpPeers(tls=None if https is None else https.client)
        return http_peers.NamespacedPeers(plain, prefix=self._prefix, sign=self._sign)

    def _sign(self, call: peers_port.Call) -> Mapping[str, str]:
        target = f"{call.path}?{parse.urlencode(call.query)}" if call.query else call.path
        request = session_keys.UserRequest(
            receiver=call.url,
            method=call.method,
            target=target,
            digest=session_keys.body_digest(call.body or b""),
            signed_ms=_CLOCK.wall_ms(),
            nonce=secrets.token_hex(16),
        )
        return request.headers(
            self.herder.config().session_key,
            algorithm=self._settings.herder.session_keys.signature_algorithm,
        )


def _kind(
    settings: distributed_settings.Settings,
    before_joining: Callable[[Callable[[], bool]], None],
    on_trouble: Callable[[str], None],
    on_broken: Callable[[str], None],
) -> worker_core.Kind:
    """Groups and topics of a fleet are named by one rule, and cannot be another's by mistake."""
    return dataclasses.replace(
        distributed.kind(settings, on_broken, on_trouble=on_trouble),
        check=lambda _: before_joining(functools.partial(_has_members, settings)),
    )


def _has_members(settings: distributed_settings.Settings) -> bool:
    """As far as that may be seen. Who has just died counts for a while."""
    group = settings.config.group_id
    asked = group_calls.GroupCalls(
        settings.connections,
        clock=clock.SystemClock(),
        rng=random.Random(),  # noqa: S311 - spreads retries
    )
    question = group_calls.Question(
        to=targets.Coordinator(targets.GROUP, group),
        message=group_requests.describe_classic(group),
        doing=f"describing group {group}",
    )
    try:
        return any(each.members for each in asked.ask(question, GROUP_S).groups)
    except errors.ConnectError as error:
        _LOG.info("who has joined already is not known: %s", error)
        return False
    finally:
        asked.close()
