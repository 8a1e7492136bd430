from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator

import pytest

from tests.fakes.rest_herder import FakeHerder
from tests.support.rest import Rest

_names = itertools.count()


@pytest.fixture
def name() -> Iterator[str]:
    name = f"restloggers{next(_names)}"
    yield name
    table = logging.Logger.manager.loggerDict
    for each in [known for known in table if known == name or known.startswith(f"{name}.")]:
        del table[each]


@pytest.fixture
def herder() -> FakeHerder:
    return FakeHerder()


def test_a_level_is_set_shown_and_listed(herder: FakeHerder, name: str) -> None:
    logging.getLogger(f"{name}.b")
    ask = Rest(herder)
    answer = ask("PUT", f"/admin/loggers/{name}", json={"level": "debug"})
    assert (answer.status_code, answer.json()) == (200, [name, f"{name}.b"])
    told = ask("GET", f"/admin/loggers/{name}.b").json()
    assert list(told) == ["level", "last_modified"]
    assert told["level"] == "DEBUG"
    assert isinstance(told["last_modified"], int)
    listed = ask("GET", "/admin/loggers").json()
    assert listed[name]["level"] == "DEBUG"
    assert "root" in listed


def test_a_level_is_set_for_all_workers(herder: FakeHerder, name: str) -> None:
    answer = Rest(herder)("PUT", f"/admin/loggers/{name}?scope=CLUSTER", json={"level": "warn"})
    assert (answer.status_code, answer.content) == (204, b"")
    assert herder.cluster_levels == {name: "WARN"}
    assert name not in logging.Logger.manager.loggerDict


@pytest.mark.parametrize("scope", ["worker", "cluster"])
@pytest.mark.parametrize("logger", ["a" * 251, "a." * 30 + "a"])
def test_long_and_deep_names_are_refused(herder: FakeHerder, logger: str, scope: str) -> None:
    answer = Rest(herder)("PUT", f"/admin/loggers/{logger}?scope={scope}", json={"level": "INFO"})
    assert answer.status_code == 400
    assert "at most 250 characters and 30 parts" in answer.json()["message"]
    assert herder.cluster_levels == {}
    assert logger not in logging.Logger.manager.loggerDict


def test_an_unknown_scope_is_this_worker(herder: FakeHerder, name: str) -> None:
    answer = Rest(herder)("PUT", f"/admin/loggers/{name}?scope=odd", json={"level": "INFO"})
    assert (answer.status_code, answer.json()) == (200, [name])


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({}, 400, "Desired 'level' parameter was not specified in request."),
        ({"level": "loud"}, 404, "invalid log level 'loud'."),
    ],
)
def test_no_level_and_a_wrong_one(
    herder: FakeHerder, *, name: str, body: object, status: int, message: str
) -> None:
    answer = Rest(herder)("PUT", f"/admin/loggers/{name}", json=body)
    assert (answer.status_code, answer.json()["message"]) == (status, message)


def test_an_unknown_logger_is_not_found(herder: FakeHerder, name: str) -> None:
    answer = Rest(herder)("GET", f"/admin/loggers/{name}")
    assert (answer.status_code, answer.json()["message"]) == (404, f"Logger {name} not found.")
