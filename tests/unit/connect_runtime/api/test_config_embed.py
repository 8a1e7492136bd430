from __future__ import annotations

import pytest

from connect_runtime.api import config_def, config_embed, config_types, config_validators

Type = config_def.Type


class Seen:
    def __init__(self) -> None:
        self.asked: list[object] = []

    def valid_values(self, name, parsed):
        self.asked.append((name, dict(parsed)))
        return [1]

    def visible(self, name, parsed):
        return parsed.get("mode") == "on"


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
def outer(seen) -> config_def.ConfigDef:
    child = config_def.ConfigDef()
    child.define("last", Type.INT, "docs", default=1, recommender=seen, order_in_group=1)
    child.define(
        "mode",
        Type.STRING,
        "docs",
        validator=config_validators.ValidString("on", "off"),
        group="Modes",
        dependents=["last"],
    )
    outer = config_def.ConfigDef().define("name", Type.STRING, "docs")
    config_embed.embed(
        outer, child, key_prefix="transforms.x.", group="Transforms: x", first_order=5
    )
    return outer


def test_keys_carry_the_prefix_and_the_group(outer):
    assert list(outer.keys) == ["name", "transforms.x.last", "transforms.x.mode"]
    mode = outer.keys["transforms.x.mode"]
    assert mode.group == "Transforms: x: Modes"
    assert outer.keys["transforms.x.last"].group == "Transforms: x"
    assert mode.order_in_group == 6
    assert mode.dependents == ["transforms.x.last"]
    assert str(mode.validator) == "[on, off]"


def test_validators_and_recommenders_see_the_childs_own_names(outer, seen):
    found = outer.validate_all({"name": "n", "transforms.x.mode": "sideways"})
    assert found["transforms.x.mode"].error_messages == [
        "Invalid value sideways for configuration mode: String must be one of: on, off"
    ]
    assert seen.asked == [("last", {"last": 1, "mode": "sideways"})]
    assert not found["transforms.x.last"].visible
    on = outer.validate_all({"name": "n", "transforms.x.mode": "on"})
    assert on["transforms.x.last"].visible


def test_secrets_stay_hidden():
    child = config_def.ConfigDef().define("p", Type.PASSWORD, "docs", default="s3cret")
    outer = config_def.ConfigDef()
    config_embed.embed(outer, child, key_prefix="x.", group="g")
    assert outer.keys["x.p"].default == config_types.Password("s3cret")
    assert "s3cret" not in repr(outer.keys["x.p"])
