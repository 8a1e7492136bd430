"""The servers in front of a fleet: who is shown pages, and where they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import httpx
import pytest

from connect_runtime.app import multi_worker_process
from connect_runtime.app.internal_rest_settings import InternalRestSettings
from connect_runtime.app.multi_worker_process import WorkerFleet
from connect_runtime.group.connect_protocol import ConnectProtocol
from connect_runtime.rest import http_pages
from connect_runtime.rest.audit_log import AuditedRequest
from connect_runtime.rest.http_pages import PageResponse
from connect_runtime.rest.rest_settings import RestListener, RestSettings
from mm2.sandbox import port_reservation
from tests.support import eventually

PAGE = PageResponse(body=b"hello", content_type=http_pages.TEXT_CONTENT_TYPE)
Open = Callable[..., WorkerFleet]


def internal(port: int) -> InternalRestSettings:
    listener = RestListener(scheme="http", host="127.0.0.1", port=port)
    return InternalRestSettings(settings=RestSettings(listeners=(listener,)), https=None)


@pytest.fixture
def opened() -> Iterator[Open]:
    made: list[WorkerFleet] = []

    def open_one(within: InternalRestSettings | None) -> WorkerFleet:
        made.append(WorkerFleet(within, pages={"/page": lambda _: PAGE}))
        made[-1].open()
        return made[-1]

    yield open_one
    for each in made:
        each.close(0)


def shown(url: str) -> bool:
    return httpx.get(f"{url.rstrip('/')}/page").text == "hello"


@pytest.fixture
def port() -> Iterator[int]:
    chosen = port_reservation.reserve_port()
    yield chosen.port
    chosen.release()


@pytest.mark.parametrize("is_chosen", [True, False])
def test_pages_are_for_this_machine_alone_whatever_port_other_nodes_use(opened, port, is_chosen):
    """They ask nobody for a password, and nobody expects them at `rest.listeners`."""
    found = opened(internal(port if is_chosen else 0))
    assert shown(found.loopback_api.url)
    assert httpx.get(f"{found.advertised_url}page").status_code == 404


def test_without_a_server_for_other_nodes_pages_are_on_this_machine_too(opened):
    found = opened(None)
    assert found.advertised_url == multi_worker_process.UNREACHABLE_URL
    assert shown(found.loopback_api.url)


def test_only_a_request_with_the_password_is_reported_as_an_operators():
    """Others could fill the log, and give any name."""
    changes: list[AuditedRequest] = []
    fleet = WorkerFleet(None, on_change=changes.append)
    fleet.open()
    try:
        url = f"{fleet.loopback_api.url}/a/b/connectors/c/pause"
        assert httpx.put(url).status_code == 401
        assert httpx.put(url, auth=("alice", "guess")).status_code == 401
        assert httpx.put(url, auth=("alice", fleet.loopback_api.password)).status_code == 404
        eventually.eventually(lambda: changes, 10.0)  # it is reported after the response
        assert [(each.user, each.status) for each in changes] == [("alice", 404)]
    finally:
        fleet.close(0)


@pytest.mark.parametrize(
    ("configured", "offered"),
    [
        ("sessioned", ConnectProtocol.SESSIONED_WHOLE),
        ("compatible", ConnectProtocol.COMPATIBLE),
        ("eager", ConnectProtocol.EAGER),
    ],
)
def test_members_tell_their_group_that_they_sign_whole_requests(in_group, configured, offered):
    settings = in_group({"connect.protocol": configured})
    member = WorkerFleet(None).create_member(
        settings, namespace=("a", "b"), prefix="/a/b", on_leading=lambda _: None
    )
    assert member._core.mode.connect_protocol is offered
    assert member._settings.build_group_settings(worker_id="w", url="u").session.protocol is offered
