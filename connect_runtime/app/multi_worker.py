"""Runs several workers in one process, each in its own group: MirrorMaker's dedicated mode.

All workers share two servers, each worker under its own path (`/<source>/<target>`). The internal
one serves the other nodes of the groups (KIP-710). The loopback one serves the operator of this
process the complete REST API of every worker, protected by a password that is generated for each
run. Java: MirrorMaker, MirrorRestServer.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import random
import secrets
import socket
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from urllib import parse

from connect_runtime.app import connect_distributed
from connect_runtime.app.distributed_settings import DistributedSettings
from connect_runtime.app.internal_rest import InternalRestSettings
from connect_runtime.app.worker_assembly import WorkerAddress, WorkerAssembly, WorkerMode
from connect_runtime.base.errors import ConnectError
from connect_runtime.base.metrics import MetricFamily
from connect_runtime.group.connect_protocol import ConnectProtocol
from connect_runtime.group.connectors_and_tasks import ConnectorsAndTasks
from connect_runtime.herder import session_keys
from connect_runtime.herder.peer_requests import PeerRequest
from connect_runtime.herder.session_keys import SignedUserRequest
from connect_runtime.herder.worker_herder import WorkerHerder
from connect_runtime.kafka.admin_requests import AdminRequest, AdminRequestClient
from connect_runtime.protocol import group_requests, request_builders
from connect_runtime.protocol.request_builders import CoordinatorTarget
from connect_runtime.rest import host_check, rest_app
from connect_runtime.rest.audit_log import AuditedRequest, AuditLog
from connect_runtime.rest.basic_auth import BasicAuthMiddleware
from connect_runtime.rest.host_check import HostCheckMiddleware
from connect_runtime.rest.mounted_pages import PagesByPath
from connect_runtime.rest.namespace_router import Namespace, NamespaceRouter
from connect_runtime.rest.page_middleware import PageMiddleware
from connect_runtime.rest.rest_app import RestApplications
from connect_runtime.rest.rest_client import NamespacedRestClient, RestClient
from connect_runtime.rest.rest_server import RestServer
from connect_runtime.rest.rest_settings import RestListener, RestSettings
from connect_runtime.rest.rest_tls import HttpsContexts
from connect_runtime.storage.status_records import StatusSubject
from connect_runtime.system.clock import SystemClock
from connect_runtime.system.threads import ThreadDied
from connect_runtime.worker.worker import StartedItem

_LOG = logging.getLogger(__name__)

_CLOCK = SystemClock()
_API_SETTINGS = RestSettings()
"""What is served where; the listeners are the fleet's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetMemberAddress:
    """What a fleet gives a worker: its address, and both servers' namespaces.

    `shared` None: nobody outside this process asks it anything, nor does it ask anybody.
    """

    url: str
    worker_id: str
    https: HttpsContexts | None
    shared: NamespaceRouter | None
    own: NamespaceRouter


MEMBER_CHECK_TIMEOUT_S = 3.0
"""What looking for other members may take."""


def join_immediately(_: Callable[[], bool]) -> None:
    """Whoever has joined already, there is nothing to wait for."""


def ignore_trouble(_: str) -> None:
    """Nobody shows what keeps the worker from starting."""


class FleetMember:
    """`start`, then `stop`, once, by one thread; the rest by any."""

    def __init__(
        self,
        settings: DistributedSettings,
        *,
        namespace: Namespace,
        prefix: str,
        place: FleetMemberAddress,
        on_leading: Callable[[FleetMember], None],
        before_joining: Callable[[Callable[[], bool]], None],
        on_trouble: Callable[[str], None] = ignore_trouble,
    ) -> None:
        """See `fleet.Fleet.member`."""
        self.namespace = namespace
        self._prefix = prefix
        self._settings = settings
        self._place = place
        self._served: list[Callable[[], None]] = []
        self._core = WorkerAssembly(
            functools.partial(_build_member_mode, settings, before_joining, on_trouble),
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
                WorkerAddress(worker_id=place.worker_id, url=place.url, peers=peers)
            )
            self._served.append(
                place.own.put(
                    self.namespace, rest_app.build_applications(parts, _API_SETTINGS).main
                )
            )
            if place.shared is not None:
                keys = self._settings.herder.session_keys
                shared = rest_app.build_internal_application(
                    parts,
                    _API_SETTINGS,
                    keys,
                    receiver=place.url,
                    must_be_signed=self._settings.offers is ConnectProtocol.SESSIONED,
                )
                self._served.append(place.shared.put(self.namespace, shared))
            core.begin()
        except BaseException:
            self.stop()
            raise

    @property
    def herder(self) -> WorkerHerder:
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
    def assigned(self) -> ConnectorsAndTasks:
        """What it was given to run in the last round."""
        return self._core.assigned

    @property
    def assigned_offset(self) -> int:
        """The offset of the configuration that the last round handed out; -1 before."""
        return self._core.assigned_offset

    @property
    def begun(self) -> Mapping[StatusSubject, StartedItem]:
        """What it has begun, with which configurations, and what these have said since."""
        return self._core.begun

    @property
    def failure(self) -> str | None:
        """Why it ended by itself."""
        return self._core.failure

    @property
    def published(self) -> tuple[MetricFamily, ...]:
        """All that is measured of it, its plugins' metrics included, as of now."""
        return () if self._core.metrics is None else self._core.metrics.published

    @property
    def own_metrics(self) -> tuple[MetricFamily, ...]:
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

    def _peers(self) -> NamespacedRestClient:
        https = self._place.https
        plain = RestClient(tls=None if https is None else https.client)
        return NamespacedRestClient(plain, prefix=self._prefix, sign=self._sign)

    def _sign(self, call: PeerRequest) -> Mapping[str, str]:
        target = f"{call.path}?{parse.urlencode(call.query)}" if call.query else call.path
        request = SignedUserRequest(
            receiver=call.url,
            method=call.method,
            target=target,
            digest=session_keys.compute_body_digest(call.body or b""),
            signed_ms=_CLOCK.wall_ms(),
            nonce=secrets.token_hex(16),
        )
        return request.headers(
            self.herder.config().session_key,
            algorithm=self._settings.herder.session_keys.signature_algorithm,
        )


def _build_member_mode(
    settings: DistributedSettings,
    before_joining: Callable[[Callable[[], bool]], None],
    on_trouble: Callable[[str], None],
    on_broken: Callable[[str], None],
) -> WorkerMode:
    """Groups and topics of a fleet are named by one rule, and cannot be another's by mistake."""
    return dataclasses.replace(
        connect_distributed.build_worker_mode(settings, on_broken, on_trouble=on_trouble),
        check=lambda _: before_joining(functools.partial(_has_members, settings)),
    )


def _has_members(settings: DistributedSettings) -> bool:
    """As far as that may be seen. Who has just died counts for a while."""
    group = settings.config.group_id
    asked = AdminRequestClient(
        settings.connections,
        clock=SystemClock(),
        rng=random.Random(),  # noqa: S311 - spreads retries
    )
    question = AdminRequest(
        to=CoordinatorTarget(request_builders.GROUP_COORDINATOR, group),
        message=group_requests.describe_classic_groups(group),
        doing=f"describing group {group}",
    )
    try:
        return any(each.members for each in asked.ask(question, MEMBER_CHECK_TIMEOUT_S).groups)
    except ConnectError as error:
        _LOG.info("who has joined already is not known: %s", error)
        return False
    finally:
        asked.close()


UNREACHABLE_URL = "NOTUSED"
"""What a worker without internal REST tells its group as its URL, in Java's dedicated mode."""
REST_STOP_TIMEOUT_S = 2
"""How long running requests may take to end: who operates this process waits for its end."""
_NO_PAGES: PagesByPath = MappingProxyType({})
_LOOPBACK_USER = "mm2"
_PASSWORD_BYTES = 24
_LOOPBACK_SETTINGS = RestSettings(
    listeners=(RestListener(scheme="http", host="127.0.0.1", port=0),)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopbackApi:
    """Where, and as whom, the whole API is asked: `<url>/<source>/<target>/connectors`. Any
    other name than `user` will do, and is what `on_change` is told."""

    url: str
    user: str
    password: str = field(repr=False)


class _AnyUser(Mapping[str, str]):
    """Users of the loopback server: the password counts, and the name says who uses it."""

    def __init__(self, password: str) -> None:
        self._password = password

    def __getitem__(self, name: str) -> str:
        return self._password

    def __iter__(self) -> Iterator[str]:
        return iter((_LOOPBACK_USER,))

    def __len__(self) -> int:
        return 1


class WorkerFleet:
    """`open`, then members, then `close`, by one thread."""

    def __init__(
        self,
        internal: InternalRestSettings | None,
        *,
        served: PagesByPath = _NO_PAGES,
        on_change: Callable[[AuditedRequest], None] = lambda _: None,
    ) -> None:
        """`internal` None: workers of other nodes can ask this one nothing. `served` are pages that
        the servers have beside the workers, without a password: they show, and change nothing. To
        others than this machine they are shown only at a port that somebody has chosen. `on_change`
        is called after each request over loopback that may change something."""
        self._https = None if internal is None else internal.https
        self._shared, self._own = NamespaceRouter(), NamespaceRouter()
        self._password = secrets.token_urlsafe(_PASSWORD_BYTES)
        self._told_apart = [str(uuid.uuid4())] if internal is None else []
        self._loopback = RestServer(_LOOPBACK_SETTINGS, on_unasked_end=_log_thread_death)
        guarded = BasicAuthMiddleware(self._own, users=_AnyUser(self._password))
        hosts = host_check.collect_allowed_hosts(
            _LOOPBACK_SETTINGS if internal is None else internal.settings
        )
        own = HostCheckMiddleware(AuditLog(guarded, on_change), hosts=hosts)
        self._outer_own = PageMiddleware(own, served, hosts=hosts)
        self._is_chosen = internal is not None and _is_port_chosen(internal)
        self._outer_shared = PageMiddleware(
            HostCheckMiddleware(self._shared, hosts=hosts),
            served if self._is_chosen else _NO_PAGES,
            hosts=hosts,
        )
        self._internal: RestServer | None = None
        if internal is not None:
            self._internal = RestServer(
                internal.settings, main_https=internal.https, on_unasked_end=_log_thread_death
            )

    def open(self) -> None:
        """Listen. Raises `RestServerError`, and then nobody does."""
        try:
            if self._internal is not None:
                self._internal.start()
                self._internal.attach(RestApplications(main=self._outer_shared, admin=None))
            self._loopback.start()
        except ConnectError:
            self.close()
            raise
        self._loopback.attach(RestApplications(main=self._outer_own, admin=None))

    @property
    def loopback(self) -> LoopbackApi:
        """Once open."""
        url = self._loopback.advertised_url.rstrip("/")
        return LoopbackApi(url=url, user=_LOOPBACK_USER, password=self._password)

    @property
    def advertised_url(self) -> str:
        """What the members tell their groups, once open."""
        return UNREACHABLE_URL if self._internal is None else self._internal.advertised_url

    @property
    def front_url(self) -> str:
        """Where the pages are, once open: at the server for other nodes, else on loopback alone."""
        if self._internal is not None and self._is_chosen:
            return self._internal.advertised_url.rstrip("/")
        return self.loopback.url

    def member(
        self,
        settings: DistributedSettings,
        *,
        namespace: tuple[str, str],
        prefix: str,
        on_leading: Callable[[FleetMember], None],
        before_joining: Callable[[Callable[[], bool]], None] = join_immediately,
        on_trouble: Callable[[str], None] = ignore_trouble,
    ) -> FleetMember:
        """A worker, not started. `prefix` is its namespace as a path, `/source/target`, encoded as
        Java's workers encode it. `on_leading` is called with it, on a thread that nobody waits for,
        when it has become its group's leader (Java: MirrorHerder.rebalanceSuccess).
        `before_joining` is called while it starts, once its topics are read, with what it may ask:
        has the group members? It may wait, and raise a `ConnectError` to call the start off.
        `on_trouble` is called, on the thread that starts it, with what keeps it from starting and
        is tried again, and with "" once that is over.

        In statuses it is called as 4.3 calls its own, apart from those of other nodes (those of 3.9
        are all called alike): a late word of who ran a task before changes nothing then.

        Raises `FatalError` on settings that the client library refuses.
        """
        internal = self._internal
        where = socket.gethostname() if internal is None else internal.worker_id
        place = FleetMemberAddress(
            url=self.advertised_url,
            worker_id="/".join([where, "->".join(namespace), *self._told_apart]),
            https=self._https,
            shared=None if internal is None else self._shared,
            own=self._own,
        )
        return FleetMember(
            settings,
            namespace=namespace,
            prefix=prefix,
            place=place,
            on_leading=on_leading,
            before_joining=before_joining,
            on_trouble=on_trouble,
        )

    def close(self, graceful_s: int = REST_STOP_TIMEOUT_S) -> None:
        """Answer nobody any more. Again: nothing happens."""
        with contextlib.ExitStack() as last_first:
            last_first.callback(self._outer_own.stop)
            last_first.callback(self._outer_shared.stop)
            last_first.callback(self._loopback.stop, graceful_s)
            if self._internal is not None:
                last_first.callback(self._internal.stop, graceful_s)


def _is_port_chosen(internal: InternalRestSettings) -> bool:
    """Did somebody say at which port others reach this process, and did not leave it to chance?"""
    return any(each.port for each in internal.settings.listeners)


def _log_thread_death(ended: ThreadDied) -> None:
    _LOG.error("%s ended: %r; nobody is answered any more", ended.name, ended.error)
