from __future__ import annotations

import pytest

from connect_runtime.api import errors
from connect_runtime.runtime import plugin_answers
from tests.fakes import odd_plugins

DOES = odd_plugins.Odd.does


@pytest.fixture
def plugin():
    odd_plugins.installed()
    return odd_plugins.OddSource()


def test_what_it_has_is_given(plugin):
    assert plugin_answers.definition(plugin) is odd_plugins.KEYS
    [value] = plugin_answers.values(plugin, {"odd": "x"})
    assert value.name == "odd"
    assert plugin_answers.versions(plugin) == ("2.1",)


def test_its_mistakes_name_it(plugin):
    DOES["OddSource.config"] = ValueError()
    with pytest.raises(errors.ConnectError, match=r"odd_plugins\.OddSource\.config\(\) failed: V"):
        plugin_answers.definition(plugin)


def test_it_cannot_change_what_it_is_given():
    class Greedy(odd_plugins.OddSource):
        def validate(self, props):
            props.clear()
            return []

    props = {"a": "1"}
    assert plugin_answers.values(Greedy(), props) == []
    assert props == {"a": "1"}


@pytest.mark.parametrize("version", [ValueError(), SystemExit(), None, 7, "undefined"])
def test_a_version_may_be_missing(plugin, version):
    DOES["OddSource.version"] = version
    assert plugin_answers.versions(plugin) == ()
    plugin_answers.check_version(plugin, "odd", None)


def test_a_version_that_is_wanted_must_be_there(plugin):
    plugin_answers.check_version(plugin, "odd", "[2,3)")
    with pytest.raises(errors.ConfigError, match="Plugin odd not found"):
        plugin_answers.check_version(plugin, "odd", "3")
