"""`mm2 sandbox`: what it says of a sandbox whose state is given; brokers are in integration."""

from __future__ import annotations

import json
import os

import pytest

from mm2 import exit_codes
from mm2.cli import main, sandbox
from mm2.sandbox import kafka_jars, sandbox_lifecycle, server_health
from mm2.sandbox.sandbox_state import RunningBroker, RunningCluster, SandboxState
from mm2.sandbox.server_health import ServerHealth


def cluster(name, *ports, preferred=19092, protocol="PLAINTEXT"):
    addresses = [f"127.0.0.1:{port}" for port in ports]
    return RunningCluster(
        name=name,
        kafka_version="4.3.1",
        properties={"bootstrap.servers": ",".join(addresses), "security.protocol": protocol},
        brokers=tuple(
            RunningBroker(
                node_id=number,
                address=address,
                preferred_port=preferred + number - 1,
                pid=100 + number,
                log=f"/{name}/broker-{number}/broker.log",
            )
            for number, address in enumerate(addresses, 1)
        ),
    )


@pytest.fixture
def running(monkeypatch, tmp_path):
    """Makes a sandbox of these clusters be up; the health of named brokers may be given."""

    def run(*clusters, **healths):
        said = SandboxState(phase="ready", pid=1, clusters=clusters)
        servers = [
            ServerHealth(
                cluster=each.name,
                name=f"broker {broker.node_id}",
                address=broker.address,
                health=healths.get(each.name, "up"),
                pid=broker.pid,
                log=broker.log,
            )
            for each in clusters
            for broker in each.brokers
        ]
        monkeypatch.setattr(sandbox_lifecycle, "read_status", lambda folder: said)
        monkeypatch.setattr(
            sandbox_lifecycle, "start_sandbox", lambda folder, request, report: (said, True)
        )
        monkeypatch.setattr(server_health, "check_servers", lambda of: servers)
        return tmp_path / "a b"

    return run


def test_a_port_in_use_is_said(running, capsys):
    folder = running(cluster("east", 17163), cluster("west", 19192, preferred=19192))

    assert (
        main.run_command(["sandbox", "up", "east", "west", "--dir", str(folder)]) == exit_codes.DONE
    )

    said = capsys.readouterr()
    assert "port 19092 is in use: east uses 17163 instead" in said.err.splitlines()
    assert "19192" not in said.err
    assert "east: 127.0.0.1:17163" in said.out


def test_with_several_brokers_it_is_said_of_which_one(running, capsys):
    folder = running(cluster("east", 19092, 20001, 19094))

    main.run_command(["sandbox", "up", "east", "--brokers", "3", "--dir", str(folder)])

    line = "port 19093 is in use: broker 2 of east uses 20001 instead"
    assert line in capsys.readouterr().err.splitlines()


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_clusters_without_a_login_are_said_to_be_open_to_local_users(running, capsys, more):
    risk = "every local user who can connect to these clusters can read your files; use --secure"
    plain, secure = cluster("east", 19092), cluster("east", 19092, protocol="SASL_SSL")

    for clusters, lines in (((plain,), 1), ((secure, plain), 1), ((secure,), 0)):
        folder = running(*clusters)
        main.run_command(["sandbox", "up", "east", "--dir", str(folder), *more])
        assert capsys.readouterr().err.count(risk) == lines


def test_the_next_commands_name_the_folder_in_use(running, capsys):
    folder = running(cluster("east", 19092), cluster("my-west", 19192, preferred=19192))

    main.run_command(["sandbox", "up", "east", "my-west", "--dir", str(folder)])

    commands = [line for line in capsys.readouterr().out.splitlines() if "mm2 sandbox" in line]
    assert len(commands) == 4
    assert all(f"--dir '{folder}'" in line for line in commands)


def test_a_dead_broker_is_said_by_status_and_by_up(running, capsys):
    folder = running(cluster("east", 19092), cluster("west", 19192, preferred=19192), east="dead")

    for words in (["status"], ["up", "east", "west"]):
        assert main.run_command(["sandbox", *words, "--dir", str(folder)]) == exit_codes.FAILED
        said = capsys.readouterr()
        assert (
            "broker 1 at 127.0.0.1:19092: dead: process 101 has ended; its log: /east" in said.out
        )
        assert "not up: broker 1 of east." in said.err


def test_status_as_json_has_properties_and_the_health_of_each_broker(running, capsys):
    folder = running(cluster("east", 17163), east="not answering")

    assert (
        main.run_command(["sandbox", "status", "--json", "--dir", str(folder)]) == exit_codes.FAILED
    )

    told = json.loads(capsys.readouterr().out)
    assert told["phase"] == "ready"
    assert told["clusters"]["east"]["bootstrap.servers"] == "127.0.0.1:17163"
    (broker,) = told["servers"]["east"]
    assert (broker["health"], broker["preferred_port"]) == ("not answering", 19092)


def test_env_prints_addresses_and_client_properties(running, capsys):
    folder = running(cluster("my-cluster", 1, 2))

    assert main.run_command(["sandbox", "env", "--dir", str(folder)]) == exit_codes.DONE
    lines = capsys.readouterr().out.splitlines()
    assert main.run_command(["sandbox", "env", "--json", "--dir", str(folder)]) == exit_codes.DONE
    told = json.loads(capsys.readouterr().out)["variables"]

    path = f"{folder}/my-cluster.client.properties"
    assert lines == [
        "export MY_CLUSTER=127.0.0.1:1,127.0.0.1:2",
        f"export MY_CLUSTER_CONFIG='{path}'",
    ]
    assert told == {"MY_CLUSTER": "127.0.0.1:1,127.0.0.1:2", "MY_CLUSTER_CONFIG": path}


@pytest.mark.parametrize("words", [["env"], ["status"], ["kafka", "topics", "--list"]])
def test_without_a_sandbox_nothing_is_printed_and_the_exit_code_is_1(words, tmp_path, capsys):
    assert main.run_command(["sandbox", *words, "--dir", str(tmp_path)]) == exit_codes.FAILED
    said = capsys.readouterr()
    assert said.out == ""
    assert f"no sandbox is running in {tmp_path}" in said.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["topcis", "--list"], "did you mean 'topics'"),
        (["topics", "--list"], "no cluster specified: use --cluster east or --cluster west"),
        (["topics", "--cluster", "wset"], "no cluster 'wset': use --cluster east or"),
    ],
)
def test_a_tool_or_cluster_that_is_not_there_is_wrong_usage(words, message, running, capsys):
    folder = running(cluster("east", 1), cluster("west", 2))

    code = main.run_command(["sandbox", "kafka", *words, "--dir", str(folder)])

    assert code == exit_codes.BAD_INPUT
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "cluster_name", "rest"),
    [
        (["--cluster", "east", "--list"], "east", ["--list"]),
        (["--list", "--cluster=east"], "east", ["--list"]),
        (["--add", "--cluster", "--operation", "Create"], None, None),
        (["--cluster", "east", "--add", "--cluster"], "east", ["--add", "--cluster"]),
        (["--list", "--cluster"], None, None),
        (["--topic", "--help"], None, None),
    ],
)
def test_our_options_are_taken_and_the_tools_own_are_left(given, cluster_name, rest):
    args = list(given)
    assert sandbox._extract_option(args, "--cluster") == cluster_name
    assert args == (given if rest is None else rest)


def test_the_tool_replaces_this_process(running, monkeypatch, capsys):
    folder = running(cluster("east", 17163))
    ran = []
    monkeypatch.setattr(kafka_jars, "ensure_jars", lambda: folder)
    monkeypatch.setattr(os, "execv", lambda program, argv: ran.append((program, argv)))

    main.run_command(["sandbox", "kafka", "kafka-topics.sh", "--list", "--dir", str(folder)])

    ((program, argv),) = ran
    assert program == argv[0]
    assert argv[-4:] == [
        "org.apache.kafka.tools.TopicCommand",
        "--bootstrap-server",
        "127.0.0.1:17163",
        "--list",
    ]
