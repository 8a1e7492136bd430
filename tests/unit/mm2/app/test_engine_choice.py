"""What a process's engine is opened with, out of a file."""

from __future__ import annotations

import pathlib

import pytest

from mm2.app import engine_choice
from mm2.app.settings import load, settings

FILE = """
clusters:
  east: {bootstrap.servers: "e:1"}
  west: {bootstrap.servers: "w:1"}
flows:
  - {from: east, to: west, tasks.max: 3}
  - {from: west, to: east, tasks.max: 2}
spark: {master: "MASTER", allow.insecure.spark: true CONF}
"""


def read(master: str, conf: str = "") -> settings.Settings:
    text = FILE.replace("MASTER", master).replace("CONF", conf)
    return load.parse(text, file="clusters.yaml", folder=pathlib.Path("/"), environment={})


def test_as_many_copies_as_all_flows_have_tasks():
    assert engine_choice.copies(read("local[4,1]")) == 5


@pytest.mark.parametrize(
    ("master", "cores"), [("local[4,1]", None), ("yarn", None), ("spark://m:7077", "5")]
)
def test_on_a_standalone_cluster_no_more_cores_are_taken_than_there_are_tasks(master, cores):
    assert engine_choice.of(read(master)).conf.get("spark.cores.max") == cores


def test_who_says_how_many_cores_gets_them():
    chosen = engine_choice.of(read("spark://m:7077", ", conf: {spark.cores.max: 9}"))
    assert chosen.conf["spark.cores.max"] == "9"
