from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from mm2.copier.spark import settings as spark_settings
from mm2.copier.spark.settings import SparkSettings


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("local", 1),
        ("local[4]", 4),
        ("local[512,1]", 512),
        ("local[2, 1]", 2),
        ("local[*]", os.cpu_count()),
    ],
)
def test_slots_of_a_local_master(master, expected):
    assert spark_settings.count_local_slots(master) == expected


class Summary:
    def __init__(self, name, tasks):
        self.id = lambda: name
        self.maxTasks = lambda: tasks


class Context:
    """The few calls into the JVM that are made."""

    def __init__(self, *executors):
        self.size = lambda: len(executors)
        self.apply = lambda index: executors[index]
        self._jsc = self

    def sc(self):
        return self

    def statusStore(self):
        return self

    def executorList(self, active):
        assert active
        return self


def test_slots_of_executors_leave_the_driver_out():
    context = Context(Summary("driver", 0), Summary("0", 2), Summary("1", 3))
    assert spark_settings.count_executor_slots(context) == 5
    assert spark_settings.count_executor_slots(Context()) == 0


SCRATCH = Path("/tmp/scratch")
CLUSTER = "spark://m:7077"


def settings(**changes):
    return SparkSettings(**changes)


def properties(**changes):
    return spark_settings.build_spark_properties(settings(**changes), scratch=SCRATCH)


@pytest.mark.parametrize(
    ("master", "local"),
    [
        ("local", True),
        ("local[512,1]", True),
        ("local[*]", True),
        ("local-cluster[2,1,512]", False),
        (CLUSTER, False),
        ("yarn", False),
        ("k8s://h", False),
    ],
)
def test_which_masters_are_local(master, local):
    assert settings(master=master).is_local is local


def test_a_newcomer_gets_a_local_spark_that_talks_to_nobody():
    made = properties()
    assert made["spark.master"] == "local[512,1]"
    assert made["spark.driver.host"] == made["spark.driver.bindAddress"] == "127.0.0.1"
    assert made["spark.authenticate"] == "true"
    assert made["spark.ui.enabled"] == made["spark.ui.killEnabled"] == "false"
    assert made["spark.python.unix.domain.socket.enabled"] == "true"
    assert made["spark.task.maxFailures"] == "1"
    assert made["spark.speculation"] == "false"
    assert made["spark.python.worker.reuse"] == "true"
    assert made["spark.local.dir"].startswith(str(SCRATCH))
    assert settings().python == sys.executable


def test_a_cluster_is_encrypted():
    made = properties(master=CLUSTER)
    assert made["spark.authenticate"] == "true"
    assert made["spark.network.crypto.enabled"] == "true"
    assert made["spark.io.encryption.enabled"] == "true"
    assert made["spark.network.crypto.saslFallback"] == "false"
    assert made["spark.ui.enabled"] == made["spark.ui.killEnabled"] == "false"
    assert "spark.driver.host" not in made
    assert "spark.python.daemon.module" not in made
    assert "spark.authenticate" not in properties(master=CLUSTER, allow_insecure=True)


def test_users_win_where_they_may():
    made = properties(conf={"spark.driver.memory": "2g", "spark.cores.max": "4"}, ui=True)
    assert made["spark.driver.memory"] == "2g"
    assert made["spark.cores.max"] == "4"
    assert made["spark.ui.enabled"] == "true"


def test_what_the_promises_rest_on_cannot_be_changed():
    assert properties(conf={"spark.task.maxFailures": "4"})["spark.task.maxFailures"] == "1"


SECURE = {
    "spark.master": CLUSTER,
    "spark.authenticate": "true",
    "spark.authenticate.secret": "s",
    "spark.network.crypto.enabled": "true",
}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, None),
        ({"spark.authenticate": "false"}, "spark.authenticate is not true"),
        ({"spark.network.crypto.enabled": "false"}, "neither spark.network.crypto.enabled nor"),
        ({"spark.network.crypto.enabled": "false", "spark.ssl.rpc.enabled": "true"}, None),
        ({"spark.authenticate.secret": ""}, "spark.authenticate.secret is not set"),
        ({"spark.authenticate.secret": "", "spark.authenticate.secret.file": "/f"}, None),
        ({"spark.authenticate.secret": "", "spark.master": "yarn"}, None),
        ({"spark.authenticate.secret": "", "spark.master": "k8s://h"}, None),
        ({"spark.authenticate.secret": "", "spark.master": "local[4]"}, None),
        ({"spark.network.crypto.enabled": "false", "spark.master": "local[4]"}, None),
        ({"spark.authenticate": "false", "spark.master": "local[4]"}, "spark.authenticate is not"),
    ],
)
def test_what_counts_as_open(changes, told):
    found = spark_settings.explain_insecure_traffic(SECURE | changes)
    assert found == told if told is None else told in str(found)


def java_options(scratch: str = "/s", **given: Any) -> str:
    made = settings(conf={"spark.driver.extraJavaOptions": "-Xss1m"}, **given.pop("made", {}))
    return spark_settings.build_java_options(
        made, scratch=Path(scratch), logging=Path("/x/l.properties"), **given
    )


def test_java_options_point_to_our_logging_and_leave_users_the_last_word():
    options = java_options()
    assert options.startswith("-Dlog4j2.configurationFile=file:///x/l.properties ")
    assert options.endswith(" -Xss1m")
    archived = java_options(more="-XX:SharedArchiveFile=/c")
    assert archived.endswith(" -XX:SharedArchiveFile=/c -Xss1m")
    cluster = java_options(made={"master": CLUSTER}, more="-XX:SharedArchiveFile=/c")
    assert "SharedArchiveFile" not in cluster


def test_the_jvm_writes_where_we_write():
    assert " -Djava.io.tmpdir=/s " in java_options()
    assert "user.home" not in java_options()
    assert " -Djava.io.tmpdir=/s -Duser.home=/s " in java_options(nameless=True)


@pytest.mark.parametrize("scratch", ["/a b", "/a'b", '/a"b', "/a\\b"])
def test_a_path_that_options_cannot_hold_is_left_out(scratch):
    assert "-Djava.io.tmpdir" not in java_options(scratch, nameless=True)


def test_a_secret_in_the_properties_is_not_shown():
    shown = repr(settings(conf={"spark.authenticate.secret": "hush"}))
    assert "hush" not in shown
