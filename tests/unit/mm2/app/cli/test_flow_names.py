from __future__ import annotations

import pathlib

import click
import pytest

from mm2.app.cli import flow_names
from mm2.app.settings import load

TEXT = """
clusters:
  a: {bootstrap.servers: "localhost:1"}
  b: {bootstrap.servers: "localhost:2"}
flows:
  - {from: a, to: b}
  - {from: b, to: a, enabled: false}
"""


@pytest.fixture
def settings():
    return load.parse(TEXT, file="c.yaml", folder=pathlib.Path(), environment={})


def test_a_flow_is_found_by_its_name(settings):
    assert flow_names.find(settings, "a->b", hint="FLOW").target == "b"


@pytest.mark.parametrize("name", ["b->a", "x", ""])
def test_other_names_are_refused_with_those_that_there_are(settings, name):
    with pytest.raises(click.BadParameter, match=r"c\.yaml has no flow.*flows: a->b"):
        flow_names.find(settings, name, hint="FLOW")


def test_the_only_flow_need_not_be_named(settings):
    assert flow_names.find_or_only(settings, None, hint="--flow").name == "a->b"
    assert flow_names.find_or_only(settings, "a->b", hint="--flow").name == "a->b"
    both = load.parse(
        TEXT.replace(", enabled: false", ""), file="c.yaml", folder=pathlib.Path(), environment={}
    )
    with pytest.raises(click.UsageError, match="several flows: say --flow, one of 'a->b', 'b->a'"):
        flow_names.find_or_only(both, None, hint="--flow")
