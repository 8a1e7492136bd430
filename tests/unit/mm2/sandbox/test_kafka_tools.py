from __future__ import annotations

from pathlib import Path

import pytest

from connect_runtime.system import java_installation
from mm2.sandbox import kafka_tools
from mm2.sandbox.kafka_tools import ToolConnectionConfig
from mm2.sandbox.sandbox_errors import SandboxError

PLAIN = ToolConnectionConfig(bootstrap="h:1", config=None)
SECURE = ToolConnectionConfig(bootstrap="h:1", config=Path("/s/east.client.properties"))


@pytest.fixture(autouse=True)
def a_java(monkeypatch, tmp_path):
    program = tmp_path / "java"
    found = type("Java", (), {"program": program})
    monkeypatch.setattr(java_installation, "find_java", lambda: found)


def arguments(name, *given, target=PLAIN):
    argv = kafka_tools.make_tool_command(name, given, target=target, jars=Path("/jars"))
    return argv[argv.index(kafka_tools.TOOLS[name].main_class) + 1 :]


def test_names_are_in_order():
    assert list(kafka_tools.TOOLS) == sorted(kafka_tools.TOOLS)


@pytest.mark.parametrize("name", ["topics", "kafka-topics", "kafka-topics.sh", "topics.sh"])
def test_a_tool_is_found_by_its_scripts_name(name):
    assert kafka_tools.find_tool(name) == "topics"


def test_an_unknown_name_is_refused_with_the_nearest_one():
    with pytest.raises(SandboxError, match=r"'topcis'.*did you mean 'topics'"):
        kafka_tools.find_tool("topcis")
    with pytest.raises(SandboxError, match="run mm2 sandbox kafka --help for a list"):
        kafka_tools.find_tool("xyzzy")


def test_the_cluster_is_filled_in():
    assert arguments("topics", "--list") == ["--bootstrap-server", "h:1", "--list"]
    secure = ["--bootstrap-server", "h:1", "--command-config", str(SECURE.config), "--list"]
    assert arguments("topics", "--list", target=SECURE) == secure


def test_options_come_behind_a_subcommand_where_the_tool_wants_them_there():
    assert arguments("cluster", "cluster-id") == ["cluster-id", "--bootstrap-server", "h:1"]
    assert arguments("transactions", "list") == ["--bootstrap-server", "h:1", "list"]


def test_the_users_own_client_properties_win():
    given = ["--command-config", "mine", "--list"]
    assert arguments("topics", *given, target=SECURE) == ["--bootstrap-server", "h:1", *given]


@pytest.mark.parametrize(
    ("name", "given", "needed"),
    [
        ("topics", ["--list"], True),
        ("topics", ["--help"], False),
        ("topics", ["--bootstrap-server", "other:1", "--list"], False),
        ("metadata-quorum", ["--bootstrap-controller=c:1", "describe"], False),
        ("log-dirs", ["--describe"], True),
        ("dump-log", ["--files", "0.log"], False),
        ("connect-mirror-maker", ["mm2.properties"], False),
    ],
)
def test_which_commands_need_a_cluster(name, given, needed):
    assert kafka_tools.needs_cluster_options(name, given) is needed
