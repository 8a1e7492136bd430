"""The servers in front of a fleet: who is shown pages, and where they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import httpx
import pytest

from connect_runtime.app import multi_worker
from connect_runtime.app.internal_rest import InternalRestSettings
from connect_runtime.app.multi_worker import WorkerFleet
from connect_runtime.group.connect_protocol import ConnectProtocol
from connect_runtime.rest import mounted_pages
from connect_runtime.rest.mounted_pages import PageResponse
from connect_runtime.rest.rest_settings import RestListener, RestSettings
from mm2.sandbox import port_reservation

PAGE = PageResponse(body=b"hello", content_type=mounted_pages.TEXT_CONTENT_TYPE)
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


def test_pages_are_at_the_server_for_other_nodes_where_its_port_was_chosen(opened, port):
    found = opened(internal(port))
    assert found.pages_url == found.advertised_url.rstrip("/") == f"http://127.0.0.1:{port}"
    assert shown(found.pages_url)
    assert shown(found.loopback.url)


def test_at_a_port_that_nobody_has_chosen_only_this_machine_is_shown_pages(opened):
    found = opened(internal(0))
    assert found.pages_url == found.loopback.url
    assert shown(found.pages_url)
    assert httpx.get(f"{found.advertised_url}page").status_code == 404


def test_without_a_server_for_other_nodes_pages_are_on_this_machine_alone(opened):
    found = opened(None)
    assert found.advertised_url == multi_worker.UNREACHABLE_URL
    assert found.pages_url == found.loopback.url
    assert shown(found.pages_url)


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
    assert member._core.kind.connect_protocol is offered
    assert member._settings.build_group_settings(worker_id="w", url="u").session.protocol is offered
