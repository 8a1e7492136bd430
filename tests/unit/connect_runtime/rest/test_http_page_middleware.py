"""Pages beside an API: asked first, for reading alone; what goes wrong with them is answered."""

from __future__ import annotations

import logging
import threading

import pytest

from connect_runtime.rest import http_pages, rest_app
from connect_runtime.rest.http_page_middleware import PageMiddleware
from connect_runtime.rest.http_pages import (
    MountedPage,
    PageRequest,
    PageResponse,
    PagesByPath,
    PageThreadPool,
)
from connect_runtime.rest.rest_settings import RestSettings
from connect_runtime.system.supervised_threads import ThreadPool
from tests.fakes.rest_herder import FakeHerder
from tests.support import rest


def echo(asked: PageRequest) -> PageResponse:
    text = f"{asked.path} {dict(asked.query)} {asked.accept} {asked.requested_with}"
    return PageResponse(
        body=text.encode(),
        content_type=http_pages.TEXT_CONTENT_TYPE,
        headers={"Cache-Control": "no"},
    )


def broken(_: PageRequest) -> PageResponse:
    raise ValueError("secret of ours")


@pytest.fixture
def served():
    behind = rest_app.build_applications(rest.parts(FakeHerder()), RestSettings()).main
    served: PagesByPath = {"/ui/a%20b": echo, "/health/live": echo, "/broken": broken}
    made = PageMiddleware(behind, served)
    yield made
    made.stop()


def test_a_page_sees_path_query_what_is_accepted_and_who_asks(served):
    headers = {"Accept": "text/html", "X-Requested-With": "us"}
    answer = rest.ask(served, "GET", "/ui/a%20b?x=1&x=2&y=", headers=headers)
    assert answer.text == "/ui/a%20b {'y': '', 'x': '1'} text/html us"
    assert answer.headers["content-type"] == http_pages.TEXT_CONTENT_TYPE
    assert answer.headers["cache-control"] == "no"


@pytest.mark.parametrize(
    "foreign", [{"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}]
)
def test_a_page_from_elsewhere_cannot_say_that_it_is_ours(served, foreign):
    headers = {"Accept": "text/html", "X-Requested-With": "us", **foreign}
    assert rest.ask(served, "GET", "/ui/a%20b", headers=headers).text.endswith("text/html ")


def test_a_page_for_people_is_shown_under_own_names_alone(served):
    """DNS rebinding; what probes ask for does nothing and is told under any name."""
    rebound = {"Host": "evil.example"}
    assert rest.ask(served, "GET", "/ui/a%20b", headers=rebound).status_code == 403
    probed = PageMiddleware(served, {"/probed": MountedPage(PageThreadPool.PROBES, echo)})
    try:
        assert rest.ask(probed, "GET", "/probed", headers=rebound).status_code == 200
    finally:
        probed.stop()


def test_head_is_answered_without_a_body(served):
    assert rest.ask(served, "HEAD", "/health/live").status_code == 200


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/connectors"), ("GET", "/"), ("HEAD", "/health")]
)
def test_the_rest_goes_to_the_api(served, method, path):
    assert rest.ask(served, method, path).headers["content-type"] == "application/json"


def test_nothing_is_changed_by_a_page(served):
    assert rest.ask(served, "POST", "/health/live").status_code == 404


def test_a_page_that_cannot_be_made_is_told_without_why(served, caplog):
    caplog.set_level(logging.ERROR)
    answer = rest.ask(served, "GET", "/broken")
    assert (answer.status_code, answer.json()["error_code"]) == (500, 500)
    assert "secret" not in answer.text
    assert "secret of ours" in caplog.text


def test_who_does_not_answer_in_time_is_not_waited_for(served, monkeypatch):
    monkeypatch.setattr(http_pages, "PAGE_DEADLINE_S", 0.05)
    ending = threading.Event()

    def hangs(_: PageRequest) -> PageResponse:
        ending.wait(30)
        return PageResponse(body=b"")

    made = PageMiddleware(served, {"/slow": hangs})
    try:
        assert rest.ask(made, "GET", "/slow").status_code == 503
    finally:
        ending.set()
        made.stop()


def test_a_page_that_many_want_keeps_nobody_from_hearing_that_we_live(served):
    """What is made at once needs no thread."""
    ending, asked = threading.Event(), threading.Event()

    def slow(_: PageRequest) -> PageResponse:
        asked.set()
        ending.wait(30)
        return PageResponse(body=b"late")

    lives = MountedPage(PageThreadPool.EVENT_LOOP, echo)
    made = PageMiddleware(served, {"/slow": slow, "/lives": lives})
    clients = ThreadPool("clients", threads_max=50, waiting_max=50)
    answers = [clients.submit(lambda: rest.ask(made, "GET", "/slow")) for _ in range(50)]
    try:
        assert asked.wait(10)
        assert rest.ask(made, "GET", "/lives").status_code == 200
        ending.set()
        assert {each.result(30).status_code for each in answers} <= {200, 503}
    finally:
        ending.set()
        clients.stop(1.0)
        made.stop()


def test_when_it_is_stopped_no_page_is_made(served):
    assert rest.ask(served, "GET", "/health/live").status_code == 200
    served.stop()
    assert rest.ask(served, "GET", "/health/live").status_code == 503
