"""Runs several workers in one process, each in its own group, like MirrorMaker's dedicated mode.

The workers share two REST servers. Each worker has its own path (`/<source>/<target>`) on both. The
internal server receives requests from workers on other nodes (KIP-710). The loopback server exposes
the complete REST API of every worker to local operators; its password is generated when the process
starts. Java: MirrorMaker, MirrorRestServer.
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
from connect_runtime.app.internal_rest_settings import InternalRestSettings
from connect_runtime.app.worker_assembly import WorkerAddress, WorkerAssembly, WorkerMode
from connect_runtime.base.errors import ConnectError
from connect_runtime.base.metrics import MetricFamily
from connect_runtime.group.connect_protocol import ConnectProtocol
from connect_runtime.group.connectors_and_tasks import ConnectorsAndTasks
from connect_runtime.herder import session_keys
from connect_runtime.herder.requests_to_other_workers import PeerRequest, PeerUnavailableError
from connect_runtime.herder.session_keys import SignedUserRequest
from connect_runtime.herder.worker_herder import WorkerHerder
from connect_runtime.kafka.admin_requests import AdminRequest, AdminRequestClient
from connect_runtime.protocol import consumer_group_requests, request_builders
from connect_runtime.protocol.request_builders import CoordinatorKey
from connect_runtime.rest import host_and_origin_middleware, rest_app
from connect_runtime.rest.audit_log import AuditedRequest, AuditLogMiddleware
from connect_runtime.rest.basic_auth import BasicAuthMiddleware
from connect_runtime.rest.host_and_origin_middleware import HostCheckMiddleware
from connect_runtime.rest.http_page_middleware import PageMiddleware
from connect_runtime.rest.http_pages import PagesByPath
from connect_runtime.rest.path_prefix_router import Namespace, NamespaceRouter
from connect_runtime.rest.rest_app import RestApplications
from connect_runtime.rest.rest_client import NamespacedRestClient, RestClient
from connect_runtime.rest.rest_server import RestServer
from connect_runtime.rest.rest_settings import RestListener, RestSettings
from connect_runtime.rest.rest_tls import HttpsContexts
from connect_runtime.storage.status_records import StatusSubject
from connect_runtime.system.supervised_threads import UnexpectedThreadEnd
from connect_runtime.system.system_clock import SystemClock
from connect_runtime.worker.worker import StartedConnectorOrTask

_LOG = logging.getLogger(__name__)

_CLOCK = SystemClock()
_API_SETTINGS = RestSettings()
"""REST settings of each worker in a fleet: without listeners, because the workers share the fleet's
listeners."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetMemberAddress:
    """Address of a fleet member (a worker of the fleet), and the routers of the servers that it
    uses."""

    url: str
    worker_id: str
    https: HttpsContexts | None
    internal_router: NamespaceRouter | None
    """Router of the internal server; None if the fleet has no internal server."""
    loopback_router: NamespaceRouter
    """Router of the loopback server."""


MEMBER_CHECK_TIMEOUT_S = 3.0
"""Timeout of the check whether the group has other members."""


def skip_wait_before_joining(_: Callable[[], bool]) -> None:
    """Default of `before_joining`: join the group without waiting for other members."""


def ignore_startup_problem(_: str) -> None:
    """Default of `on_trouble`: ignore a problem that delays the start."""


class FleetMember:
    """A worker of a fleet. Call `start` and `stop` once, from one thread; all other methods are
    thread-safe."""

    def __init__(
        self,
        settings: DistributedSettings,
        *,
        namespace: Namespace,
        prefix: str,
        place: FleetMemberAddress,
        on_leading: Callable[[FleetMember], None],
        before_joining: Callable[[Callable[[], bool]], None],
        on_trouble: Callable[[str], None] = ignore_startup_problem,
    ) -> None:
        """Create the worker without starting it. `WorkerFleet.create_member` describes the
        parameters."""
        if settings.connect_protocol is ConnectProtocol.SESSIONED:
            settings = dataclasses.replace(
                settings, connect_protocol=ConnectProtocol.SESSIONED_WHOLE
            )
        self.namespace = namespace
        self._prefix = prefix
        self._settings = settings
        self._place = place
        self._served: list[Callable[[], None]] = []
        self._core = WorkerAssembly(
            functools.partial(_build_member_worker_mode, settings, before_joining, on_trouble),
            on_leading=lambda: on_leading(self),
        )

    def start(self) -> None:
        """Read the internal topics and join the group. Raises `ConnectError` if this fails.

        After a failure nothing is left running. To retry, create a new member.
        """
        place, core = self._place, self._core
        try:
            core.read_kafka_cluster_id()
            peers = None if place.internal_router is None else self._create_peer_client()
            parts = core.build_rest_dependencies(
                WorkerAddress(worker_id=place.worker_id, url=place.url, peers=peers)
            )
            self._served.append(
                place.loopback_router.mount_application(
                    self.namespace, rest_app.build_applications(parts, _API_SETTINGS).main
                )
            )
            if place.internal_router is not None:
                keys = self._settings.herder.session_keys
                shared = rest_app.build_internal_application(
                    parts,
                    _API_SETTINGS,
                    keys,
                    receiver=place.url,
                    must_be_signed=self._settings.connect_protocol.signs_requests,
                )
                self._served.append(place.internal_router.mount_application(self.namespace, shared))
            core.join_group()
        except BaseException:
            self.stop()
            raise

    @property
    def herder(self) -> WorkerHerder:
        """The member's herder, which provides configurations and statuses and accepts requests.
        Valid after `start`."""
        assert self._core.herder is not None, "call start first"
        return self._core.herder

    @property
    def is_leader(self) -> bool:
        """True if this worker is its group's leader, as of the last rebalance."""
        return self._core.is_leader

    @property
    def leader_url(self) -> str:
        """URL of the group's leader as of the last rebalance; "" if the group has no leader."""
        url = self._core.leader_url
        return url if "://" in url else ""

    @property
    def assignment(self) -> ConnectorsAndTasks:
        """Connectors and tasks assigned to this worker in the last rebalance."""
        return self._core.assignment

    @property
    def assignment_offset(self) -> int:
        """Config topic offset on which the last assignment is based; -1 before the first
        assignment."""
        return self._core.assignment_offset

    @property
    def started_connectors_and_tasks(self) -> Mapping[StatusSubject, StartedConnectorOrTask]:
        """Connectors and tasks that this worker has started, with their configurations and
        statuses."""
        return self._core.started_connectors_and_tasks

    @property
    def failure(self) -> str | None:
        """Reason why the worker failed; None if it has not failed."""
        return self._core.failure

    @property
    def all_families(self) -> tuple[MetricFamily, ...]:
        """All current metrics of the worker, including its plugins' metrics."""
        return () if self._core.metrics is None else self._core.metrics.all_families

    @property
    def own_metric_families(self) -> tuple[MetricFamily, ...]:
        """Current metrics of the worker itself, without its plugins' metrics."""
        return () if self._core.metrics is None else self._core.metrics.worker_families

    @property
    def rebalance_count(self) -> int:
        """Number of group rebalances in which this worker took part."""
        return 0 if self._core.metrics is None else self._core.metrics.rebalances()

    def wait(self, timeout_s: float) -> bool:
        """Wait for up to `timeout_s` for the worker to fail; return True if it has failed (see
        `failure`)."""
        return self._core.wait(timeout_s)

    def stop(self) -> None:
        """Stop all connectors and tasks, leave the group and release resources. Idempotent."""
        with contextlib.ExitStack() as last_first:
            last_first.callback(self._core.stop)
            for leave in self._served:
                last_first.callback(leave)

    def _create_peer_client(self) -> NamespacedRestClient:
        https = self._place.https
        plain = RestClient(tls=None if https is None else https.client)
        return NamespacedRestClient(
            plain,
            prefix=self._prefix,
            sign=self._sign_request,
            has_java_workers=lambda: not self.herder.signs_whole_requests(),
        )

    def _sign_request(self, call: PeerRequest) -> PeerRequest:
        """Sign the method, path, time and body digest of a request to another worker.

        In a group without Java workers, the session key is required and the other worker must sign
        its response. Raises `PeerUnavailableError` in such a group if this worker has not read a
        session key from the config topic yet. In a group with Java workers, the request is sent
        unsigned until then.
        """
        key = self.herder.get_config_state().session_key
        must_be_signed = self.herder.signs_whole_requests()
        if must_be_signed and key is None:
            raise PeerUnavailableError(
                "cannot sign a request to another worker: this worker has not read a session key"
                " from the config topic yet; try again soon"
            )
        target = f"{call.path}?{parse.urlencode(call.query)}" if call.query else call.path
        request = SignedUserRequest(
            receiver=call.url,
            method=call.method,
            target=target,
            digest=session_keys.compute_body_digest(call.body or b""),
            signed_ms=_CLOCK.wall_ms(),
            nonce=secrets.token_hex(16),
        )
        return dataclasses.replace(
            call,
            signature=request.build_headers(
                key, algorithm=self._settings.herder.session_keys.signature_algorithm
            ),
            response_key=key if must_be_signed else None,
        )


def _build_member_worker_mode(
    settings: DistributedSettings,
    before_joining: Callable[[Callable[[], bool]], None],
    on_trouble: Callable[[str], None],
    on_broken: Callable[[str], None],
) -> WorkerMode:
    """Build the `WorkerMode` of a fleet member.

    A fleet member does not check whether another Connect cluster uses its internal topics. The
    names of its group and of its internal topics are derived from the source and target aliases, so
    different groups use different topics.
    """
    return dataclasses.replace(
        connect_distributed.build_worker_mode(settings, on_broken, on_trouble=on_trouble),
        check_startup=lambda _: before_joining(functools.partial(_has_group_members, settings)),
    )


def _has_group_members(settings: DistributedSettings) -> bool:
    """Return True if the worker group has members. A crashed member counts until its session times
    out. Returns False if the members cannot be determined."""
    group = settings.config.group_id
    asked = AdminRequestClient(
        settings.connections,
        clock=SystemClock(),
        rng=random.Random(),  # noqa: S311 - spreads retries
    )
    question = AdminRequest(
        to=CoordinatorKey(request_builders.GROUP_COORDINATOR, group),
        message=consumer_group_requests.build_describe_classic_groups_request(group),
        doing=f"describing group {group}",
    )
    try:
        return any(
            each.members for each in asked.send_request(question, MEMBER_CHECK_TIMEOUT_S).groups
        )
    except ConnectError as error:
        _LOG.info(
            "cannot determine the members of the worker group, assuming that it has none: %s", error
        )
        return False
    finally:
        asked.close()


UNREACHABLE_URL = "NOTUSED"
"""URL that a worker without an internal REST server advertises to its group; same as in Java."""
REST_STOP_TIMEOUT_S = 2
"""Maximum time for requests in progress to complete at shutdown. It is short, because the operator
is waiting for the process to end."""
_NO_PAGES: PagesByPath = MappingProxyType({})
_LOOPBACK_USER = "mm2"
_PASSWORD_BYTES = 24
_LOOPBACK_SETTINGS = RestSettings(
    listeners=(RestListener(scheme="http", host="127.0.0.1", port=0),)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopbackApi:
    """Address and credentials of the complete REST API: `<url>/<source>/<target>/connectors`.

    The REST API accepts any user name together with the password. The user name is only passed to
    the fleet's `on_change` callback, for the audit log.
    """

    url: str
    user: str
    password: str = field(repr=False)


class _AnyUserCredentials(Mapping[str, str]):
    """User database of the loopback server: accepts every user name with the same password."""

    def __init__(self, password: str) -> None:
        self._password = password

    def __getitem__(self, name: str) -> str:
        return self._password

    def __iter__(self) -> Iterator[str]:
        return iter((_LOOPBACK_USER,))

    def __len__(self) -> int:
        return 1


class WorkerFleet:
    """Runs several workers that share REST servers. Call `open`, create members, and call `close`,
    all from one thread."""

    def __init__(
        self,
        internal: InternalRestSettings | None,
        *,
        pages: PagesByPath = _NO_PAGES,
        on_change: Callable[[AuditedRequest], None] = lambda _: None,
    ) -> None:
        """Create the fleet.

        `internal` contains the settings of the internal server. If `internal` is None, the fleet
        has no internal server and accepts no requests from other nodes. `pages` are read-only pages
        of the loopback server that need no password. `on_change` is called after each authenticated
        request to the loopback server that may have changed something.
        """
        self._https = None if internal is None else internal.https
        self._shared, self._own = NamespaceRouter(), NamespaceRouter()
        self._password = secrets.token_urlsafe(_PASSWORD_BYTES)
        self._told_apart = [str(uuid.uuid4())] if internal is None else []
        self._loopback = RestServer(_LOOPBACK_SETTINGS, on_thread_death=_log_server_thread_death)
        # Only requests with the right password reach the audit log, so others cannot write to it.
        audited = AuditLogMiddleware(self._own, on_change)
        guarded = BasicAuthMiddleware(audited, users=_AnyUserCredentials(self._password))
        hosts = host_and_origin_middleware.collect_allowed_hosts(
            _LOOPBACK_SETTINGS if internal is None else internal.settings
        )
        own = HostCheckMiddleware(guarded, hosts=hosts)
        self._outer_own = PageMiddleware(own, pages, hosts=hosts)
        self._outer_shared = HostCheckMiddleware(self._shared, hosts=hosts)
        self._internal: RestServer | None = None
        if internal is not None:
            self._internal = RestServer(
                internal.settings,
                main_https=internal.https,
                on_thread_death=_log_server_thread_death,
            )

    def open(self) -> None:
        """Open the listeners of the fleet's servers. Raises `RestServerError` if this fails; no
        listener is open in this case."""
        try:
            if self._internal is not None:
                self._internal.start()
                self._internal.attach_applications(
                    RestApplications(main=self._outer_shared, admin=None)
                )
            self._loopback.start()
        except ConnectError:
            self.close()
            raise
        self._loopback.attach_applications(RestApplications(main=self._outer_own, admin=None))

    @property
    def loopback_api(self) -> LoopbackApi:
        """Address of the loopback API. Valid after `open`."""
        url = self._loopback.advertised_url.rstrip("/")
        return LoopbackApi(url=url, user=_LOOPBACK_USER, password=self._password)

    @property
    def advertised_url(self) -> str:
        """URL that members advertise to their worker groups. Valid after `open`."""
        return UNREACHABLE_URL if self._internal is None else self._internal.advertised_url

    def create_member(
        self,
        settings: DistributedSettings,
        *,
        namespace: tuple[str, str],
        prefix: str,
        on_leading: Callable[[FleetMember], None],
        before_joining: Callable[[Callable[[], bool]], None] = skip_wait_before_joining,
        on_trouble: Callable[[str], None] = ignore_startup_problem,
    ) -> FleetMember:
        """Create a worker without starting it.

        `prefix` is the worker's namespace as a path, `/source/target`, encoded as in Java.
        `on_leading` is called on a separate thread when the worker has become its group's leader
        (Java: MirrorHerder.rebalanceSuccess). `before_joining` is called during the start, after
        the topics were read. Its argument is a predicate that returns True if the group has
        members. `before_joining` may wait, or raise a `ConnectError` to cancel the start.
        `on_trouble` is called on the starting thread with each problem that delays the start; the
        failed operation is retried. `on_trouble` is called with "" once the operation succeeds.

        Each node has its own worker id in statuses, as in Kafka 4.3. A late status from the worker
        that ran a task before therefore has no effect. (In Kafka 3.9, all nodes have the same id.)

        Raises `FatalError` if the client library rejects the settings.
        """
        internal = self._internal
        where = socket.gethostname() if internal is None else internal.worker_id
        place = FleetMemberAddress(
            url=self.advertised_url,
            worker_id="/".join([where, "->".join(namespace), *self._told_apart]),
            https=self._https,
            internal_router=None if internal is None else self._shared,
            loopback_router=self._own,
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
        """Stop serving requests on both servers. Idempotent."""
        with contextlib.ExitStack() as last_first:
            last_first.callback(self._outer_own.stop)
            last_first.callback(self._loopback.stop, graceful_s)
            if self._internal is not None:
                last_first.callback(self._internal.stop, graceful_s)


def _log_server_thread_death(ended: UnexpectedThreadEnd) -> None:
    _LOG.error("%s failed: %r; it no longer serves requests", ended.name, ended.error)
