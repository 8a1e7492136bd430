"""Several workers in one process, each of its own group: what MM2's dedicated mode runs.

Two servers are shared by all, each worker under its namespace (`/<source>/<target>`): one for the
other nodes of the groups, which serves what workers ask each other (KIP-710); and one on loopback,
for who operates this process, with the whole REST API of every worker behind a password that is
made anew for each run. Java: MirrorMaker, MirrorRestServer.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import socket
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from connect_runtime.app import fleet_member
from connect_runtime.app.settings import distributed as distributed_settings
from connect_runtime.app.settings import internal_rest
from connect_runtime.base import errors
from connect_runtime.ports import pages
from connect_runtime.rest import app as rest_app
from connect_runtime.rest import basic_auth, beside, change_log, host_check, namespaces, server
from connect_runtime.rest import settings as rest_settings
from connect_runtime.system import threads

_LOG = logging.getLogger(__name__)

NOT_USED = "NOTUSED"
"""What a worker without internal REST tells its group as its URL, in Java's dedicated mode."""
GRACEFUL_S = 2
"""How long running requests may take to end: who operates this process waits for its end."""
_NO_PAGES: pages.Pages = MappingProxyType({})
_USER = "mm2"
_PASSWORD_BYTES = 24
_LOOPBACK = rest_settings.RestSettings(
    listeners=(rest_settings.Listener(scheme="http", host="127.0.0.1", port=0),)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loopback:
    """Where, and as whom, the whole API is asked: `<url>/<source>/<target>/connectors`. Any
    other name than `user` will do, and is what `on_change` is told."""

    url: str
    user: str
    password: str = field(repr=False)


class _AnyName(Mapping[str, str]):
    """Users of the loopback server: the password counts, and the name says who uses it."""

    def __init__(self, password: str) -> None:
        self._password = password

    def __getitem__(self, name: str) -> str:
        return self._password

    def __iter__(self) -> Iterator[str]:
        return iter((_USER,))

    def __len__(self) -> int:
        return 1


class Fleet:
    """`open`, then members, then `close`, by one thread."""

    def __init__(
        self,
        internal: internal_rest.InternalRest | None,
        *,
        served: pages.Pages = _NO_PAGES,
        on_change: Callable[[change_log.Change], None] = lambda _: None,
    ) -> None:
        """`internal` None: workers of other nodes can ask this one nothing. `served` are pages that
        the servers have beside the workers, without a password: they show, and change nothing. To
        others than this machine they are shown only at a port that somebody has chosen. `on_change`
        is called after each request over loopback that may change something."""
        self._https = None if internal is None else internal.https
        self._shared, self._own = namespaces.Namespaces(), namespaces.Namespaces()
        self._password = secrets.token_urlsafe(_PASSWORD_BYTES)
        self._told_apart = [str(uuid.uuid4())] if internal is None else []
        self._loopback = server.RestServer(_LOOPBACK, on_unasked_end=_tell_end)
        guarded = basic_auth.BasicAuth(self._own, users=_AnyName(self._password))
        hosts = host_check.hosts(_LOOPBACK if internal is None else internal.settings)
        own = host_check.HostCheck(change_log.ChangeLog(guarded, on_change), hosts=hosts)
        self._outer_own = beside.Beside(own, served, hosts=hosts)
        self._is_chosen = internal is not None and _is_chosen(internal)
        self._outer_shared = beside.Beside(
            host_check.HostCheck(self._shared, hosts=hosts),
            served if self._is_chosen else _NO_PAGES,
            hosts=hosts,
        )
        self._internal: server.RestServer | None = None
        if internal is not None:
            self._internal = server.RestServer(
                internal.settings, main_https=internal.https, on_unasked_end=_tell_end
            )

    def open(self) -> None:
        """Listen. Raises `RestServerError`, and then nobody does."""
        try:
            if self._internal is not None:
                self._internal.start()
                self._internal.attach(rest_app.Apps(main=self._outer_shared, admin=None))
            self._loopback.start()
        except errors.ConnectError:
            self.close()
            raise
        self._loopback.attach(rest_app.Apps(main=self._outer_own, admin=None))

    @property
    def loopback(self) -> Loopback:
        """Once open."""
        url = self._loopback.advertised_url.rstrip("/")
        return Loopback(url=url, user=_USER, password=self._password)

    @property
    def advertised_url(self) -> str:
        """What the members tell their groups, once open."""
        return NOT_USED if self._internal is None else self._internal.advertised_url

    @property
    def front_url(self) -> str:
        """Where the pages are, once open: at the server for other nodes, else on loopback alone."""
        if self._internal is not None and self._is_chosen:
            return self._internal.advertised_url.rstrip("/")
        return self.loopback.url

    def member(
        self,
        settings: distributed_settings.Settings,
        *,
        namespace: tuple[str, str],
        prefix: str,
        on_leading: Callable[[fleet_member.Member], None],
        before_joining: Callable[[Callable[[], bool]], None] = fleet_member.at_once,
        on_trouble: Callable[[str], None] = fleet_member.ignore,
    ) -> fleet_member.Member:
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
        place = fleet_member.Place(
            url=self.advertised_url,
            worker_id="/".join([where, "->".join(namespace), *self._told_apart]),
            https=self._https,
            shared=None if internal is None else self._shared,
            own=self._own,
        )
        return fleet_member.Member(
            settings,
            namespace=namespace,
            prefix=prefix,
            place=place,
            on_leading=on_leading,
            before_joining=before_joining,
            on_trouble=on_trouble,
        )

    def close(self, graceful_s: int = GRACEFUL_S) -> None:
        """Answer nobody any more. Again: nothing happens."""
        with contextlib.ExitStack() as last_first:
            last_first.callback(self._outer_own.stop)
            last_first.callback(self._outer_shared.stop)
            last_first.callback(self._loopback.stop, graceful_s)
            if self._internal is not None:
                last_first.callback(self._internal.stop, graceful_s)


def _is_chosen(internal: internal_rest.InternalRest) -> bool:
    """Did somebody say at which port others reach this process, and did not leave it to chance?"""
    return any(each.port for each in internal.settings.listeners)


def _tell_end(ended: threads.UnaskedEnd) -> None:
    _LOG.error("%s ended: %r; nobody is answered any more", ended.name, ended.error)
