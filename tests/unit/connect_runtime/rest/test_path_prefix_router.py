"""Several APIs behind one server: each is reached by its names, however they are encoded."""

from __future__ import annotations

import logging

import pytest

from connect_runtime.herder.session_keys import SessionKeySettings
from connect_runtime.rest import rest_app
from connect_runtime.rest.path_prefix_router import NamespaceRouter
from connect_runtime.rest.rest_settings import RestSettings
from tests.fakes.rest_herder import FakeHerder
from tests.support import rest

REST, KEYS = RestSettings(), SessionKeySettings()


def named(connector: str) -> FakeHerder:
    herder = FakeHerder()
    herder.make(connector)
    return herder


@pytest.fixture
def served() -> NamespaceRouter:
    made = NamespaceRouter()
    for name in (("a b", "c~*"), ("c~*", "a b"), ("connectors", "x")):
        made.mount_application(
            name, rest_app.build_applications(rest.parts(named("".join(name))), REST).main
        )
    return made


@pytest.mark.parametrize(
    ("path", "connector"),
    [
        ("/a%20b/c~*/connectors", "a bc~*"),
        ("/a%20b/c%7E%2A/connectors/", "a bc~*"),
        ("/c%7e*/a%20b/connectors", "c~*a b"),
        ("/connectors/x/connectors", "connectorsx"),
    ],
)
def test_each_has_its_own(served, path, connector):
    assert rest.ask(served, "GET", path).json() == [connector]


def test_the_root_of_one_is_its_root(served):
    for path in ("/connectors/x", "/connectors/x/"):
        assert "kafka_cluster_id" in rest.ask(served, "GET", path).json()


@pytest.mark.parametrize("path", ["/", "/connectors", "/a%20b", "/a+b/c~*/connectors", "//x/y"])
def test_nothing_else_is_there(served, path):
    answer = rest.ask(served, "GET", path)
    assert (answer.status_code, answer.json()["error_code"]) == (404, 404)


def test_who_was_removed_is_there_no_more(served):
    remove = served.mount_application(
        ("connectors", "x"), rest_app.build_applications(rest.parts(named("one")), REST).main
    )
    remove()
    remove()
    assert rest.ask(served, "GET", "/connectors/x/connectors").status_code == 404


def test_who_goes_late_leaves_the_next_one_its_place(served):
    """As a flow's old worker that ends when the new one is there."""
    removals = [
        served.mount_application(
            ("connectors", "x"), rest_app.build_applications(rest.parts(named(name)), REST).main
        )
        for name in ("old", "new")
    ]
    removals[0]()
    assert rest.ask(served, "GET", "/connectors/x/connectors").json() == ["new"]


def test_the_access_log_has_the_whole_path(served, caplog):
    caplog.set_level(logging.INFO, "connect_runtime.rest.access_log")
    rest.ask(served, "GET", "/a%20b/c~*/connectors?expand=info")
    assert '"GET /a%20b/c~*/connectors?expand=info HTTP/1.1" 200' in caplog.text
