from __future__ import annotations

import pathlib

import click
import pytest

from mm2.cli import options
from mm2.cli.options import ByteRateType
from mm2.config import config_loader


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("20MB", 20_000_000),
        ("20MB/s", 20_000_000),
        ("20 mb", 20_000_000),
        ("1.5M", 1_500_000),
        ("500kB", 500_000),
        ("1GiB", 1 << 30),
        ("2GB", 2_000_000_000),
        ("64KiB", 65_536),
        ("123456", 123_456),
        ("123456B/s", 123_456),
    ],
)
def test_rates(text, rate):
    assert ByteRateType().convert(text, None, None) == rate


@pytest.mark.parametrize(
    "text", ["", "MB", "-5MB", "20 MBit", "0", "10B", "1e6", "20MB/h", "\u0661MB"]
)
def test_anything_else_is_refused_with_what_is_allowed(text):
    with pytest.raises(click.BadParameter, match="allowed"):
        ByteRateType().convert(text, None, None)


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
    return config_loader.parse_clusters_yaml(
        TEXT, file="c.yaml", folder=pathlib.Path(), environment={}
    )


def test_a_flow_is_found_by_its_name(settings):
    assert options.find_flow(settings, "a->b", hint="FLOW").target == "b"


@pytest.mark.parametrize("name", ["b->a", "x", ""])
def test_other_names_are_refused_with_those_that_there_are(settings, name):
    with pytest.raises(click.BadParameter, match=r"c\.yaml has no flow.*flows: a->b"):
        options.find_flow(settings, name, hint="FLOW")


def test_the_only_flow_need_not_be_named(settings):
    assert options.find_named_or_only_flow(settings, None, hint="--flow").name == "a->b"
    assert options.find_named_or_only_flow(settings, "a->b", hint="--flow").name == "a->b"
    both = config_loader.parse_clusters_yaml(
        TEXT.replace(", enabled: false", ""), file="c.yaml", folder=pathlib.Path(), environment={}
    )
    with pytest.raises(
        click.UsageError, match="several flows: pass --flow with one of 'a->b', 'b->a'"
    ):
        options.find_named_or_only_flow(both, None, hint="--flow")
