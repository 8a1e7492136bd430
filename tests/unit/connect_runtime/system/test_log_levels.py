from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator

import pytest

from connect_runtime.system import log_levels
from connect_runtime.system.log_levels import LoggerLevel, LogLevels

_names = itertools.count()


class _Clock:
    def now_s(self) -> float:
        return 0.0

    def wall_ms(self) -> int:
        return 1234


@pytest.fixture
def name() -> Iterator[str]:
    """A namespace that no other test uses; gone from Python's tables afterwards."""
    name = f"loglevels{next(_names)}"
    yield name
    table = logging.Logger.manager.loggerDict
    for each in [known for known in table if known == name or known.startswith(f"{name}.")]:
        del table[each]


@pytest.fixture
def root_level() -> Iterator[None]:
    level = logging.getLogger().level
    yield
    logging.getLogger().setLevel(level)


LEVELS = LogLevels(_Clock())


def test_a_namespace_is_set_with_all_below_it_and_made_if_need_be(name: str) -> None:
    below = logging.getLogger(f"{name}.a.b")
    beside = logging.getLogger(f"{name}x")
    before = beside.getEffectiveLevel()
    assert LEVELS.set_level(name, "debug") == [name, f"{name}.a.b"]
    assert below.level == logging.DEBUG
    assert beside.getEffectiveLevel() == before


def test_only_loggers_with_a_level_of_their_own_are_listed(name: str) -> None:
    logging.getLogger(f"{name}.plain")
    logging.getLogger(f"{name}.own").setLevel(logging.WARNING)
    found = LEVELS.list_levels()
    assert found[f"{name}.own"] == LoggerLevel(level="WARN")
    assert f"{name}.plain" not in found
    assert "root" in found
    assert list(found) == sorted(found)


def test_a_level_says_when_it_was_changed(name: str) -> None:
    LEVELS.set_level(name, "TRACE")
    expected = LoggerLevel(level="TRACE", last_modified_ms=1234)
    assert LEVELS.get_level(name) == expected
    assert LEVELS.list_levels()[name] == expected


def test_a_level_that_counts_already_is_no_change(name: str) -> None:
    logging.getLogger(name).setLevel(logging.ERROR)
    LEVELS.set_level(name, "ERROR")
    assert LEVELS.get_level(name) == LoggerLevel(level="ERROR")


def test_an_unknown_logger_is_none_and_is_not_made(name: str) -> None:
    assert LEVELS.get_level(name) is None
    assert name not in logging.Logger.manager.loggerDict


def test_the_root_is_called_so_in_any_case(root_level: None) -> None:
    logging.getLogger().setLevel(logging.ERROR)
    assert LEVELS.get_level("ROOT") == LoggerLevel(level="ERROR")


@pytest.mark.parametrize("level", log_levels.LEVELS)
def test_every_level_is_read_as_it_was_set(name: str, level: str) -> None:
    LEVELS.set_level(name, level)
    found = LEVELS.get_level(name)
    assert found is not None
    assert found.level == level


def test_a_level_of_pythons_own_is_the_next_below(name: str) -> None:
    logging.getLogger(name).setLevel(25)
    assert LEVELS.get_level(name) == LoggerLevel(level="INFO")


def test_a_logger_is_off(name: str, caplog: pytest.LogCaptureFixture) -> None:
    LEVELS.set_level(name, "OFF")
    logging.getLogger(name).critical("not seen")
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("namespace", "is_valid"),
    [
        ("a" * 250, True),
        ("a" * 251, False),
        (".".join("a" * 30), True),
        (".".join("a" * 31), False),
        ("a." * 25_000, False),
    ],
)
def test_names_of_loggers_are_bounded(namespace, is_valid):
    assert (log_levels.explain_invalid_namespace(namespace) is None) == is_valid
