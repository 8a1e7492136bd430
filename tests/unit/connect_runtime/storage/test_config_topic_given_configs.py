from __future__ import annotations

from connect_runtime.storage import config_topic
from connect_runtime.storage.config_topic import TaskConfigHistory


def given(*commits):
    """A fold that has taken these sets of configurations, a second apart."""
    found = TaskConfigHistory()
    for at, configs in enumerate(commits):
        found.add_committed_configs("c", configs, wall_ms=at * 1000)
        found.check_invariants()
    return found


def test_what_tasks_were_given_is_kept_in_order_by_number():
    found = given({0: {"a": "1"}, 1: {"a": "2"}}, {0: {"a": "3"}}).get_task_configs("c")
    assert [(each.published_ms, each.config["a"]) for each in found[0]] == [(0, "1"), (1000, "3")]
    assert [each.published_ms for each in found[1]] == [0]
    assert given().get_task_configs("c") == {}


def test_only_the_newest_are_kept():
    found = given(*[{0: {}}] * 20).get_task_configs("c")[0]
    assert len(found) == config_topic.MAX_CONFIGS_PER_TASK
    assert found[-1].published_ms == 19_000


def test_what_is_not_known_when_leaves_nothing_known_of_before():
    found = given({0: {"a": "1"}})
    found.add_committed_configs("c", {0: {"a": "2"}}, wall_ms=-1)
    assert [each.config["a"] for each in found.get_task_configs("c")[0]] == ["2"]


def test_what_is_deleted_is_forgotten():
    found = given({0: {}})
    found.remove_connector("c")
    found.remove_connector("d")
    assert found.get_task_configs("c") == {}


def test_configurations_are_not_printed():
    assert "secret" not in repr(given({0: {"a": "secret"}}).get_task_configs("c"))
