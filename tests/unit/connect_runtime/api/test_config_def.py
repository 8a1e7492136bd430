from __future__ import annotations

import pytest

from connect_runtime.api import config_def, config_types
from connect_runtime.api.config_def import ConfigKey, ConfigValue
from connect_runtime.api.config_types import Password
from connect_runtime.api.config_validators import NonEmptyString, Range, ValidString
from connect_runtime.api.errors import ConfigError

Type = config_def.Type
Importance = config_def.Importance


def some() -> config_def.ConfigDef:
    return (
        config_def.ConfigDef()
        .define("z", Type.STRING, "Last word.", default="", group="Two", dependents=["a"])
        .define("a", Type.INT, "One.\n\nTwo.", group="One", order_in_group=2)
        .define("b", Type.LONG, "", default=60000, group="One", order_in_group=1)
        .define("low", Type.STRING, "", importance=Importance.LOW)
        .define("high", Type.STRING, "", validator=NonEmptyString())
        .define("given", Type.STRING, "", default=None)
        .define("hidden", Type.STRING, "", default="", internal=True)
    )


def test_keys_come_by_group_order_need_importance_and_name():
    names = [key.name for key in config_def.sort_keys_for_docs(some())]
    assert names == ["high", "low", "given", "hidden", "z", "b", "a"]


def test_the_text():
    text = config_def.to_rst(some())
    assert text.startswith("``high``\n  * Type: string\n  * Valid Values: non-empty string\n")
    assert "One\n^^^\n\n``b``" in text
    assert "``a``\n  One.\n\n  Two.\n\n  * Type: int\n  * Importance: high\n" in text
    assert '``z``\n  Last word.\n\n  * Type: string\n  * Default: ""' in text
    assert "  * Dependents: ``a``" in text
    assert "hidden" not in text


@pytest.mark.parametrize(
    ("name", "default", "shown"),
    [
        ("x", None, "null"),
        ("x", 5, "5"),
        ("x.ms", 60000, "60000 (1 minute)"),
        ("x.ms", 1, "1"),
        ("x.ms", 0, "0"),
        ("x.ms", 5000, "5000 (5 seconds)"),
        ("x.ms", 172800000, "172800000 (2 days)"),
        ("x.bytes", 1024, "1024 (1 kibibyte)"),
        ("x.bytes", 1500, "1500"),
        ("x.bytes", 33554432, "33554432 (32 mebibytes)"),
    ],
)
def test_defaults_are_readable(name, default, shown):
    key = ConfigKey(name=name, type=Type.LONG, default=default)
    assert config_def.format_default(key) == shown


def test_a_secret_default_stays_secret():
    key = ConfigKey(name="p", type=Type.PASSWORD, default="hunter2")
    assert config_def.format_default(key) == "[hidden]"


ConfigDef = config_def.ConfigDef


class Numbers:
    """The advice of Apache's own tests: 1, 2, 3; for dependents what is left of 4, 5."""

    def __init__(self, *, dependent: bool) -> None:
        self.dependent = dependent

    def valid_values(self, name, parsed):
        return [4, 5] if self.dependent else [1, 2, 3]

    def visible(self, name, parsed):
        return True


def linked(*, d_defined: bool = True) -> ConfigDef:
    """b hangs on a and d, c on a."""
    below_a = ["b", "c"] if d_defined else ["b", "c", "d"]
    definition = ConfigDef()
    definition.define(
        "a", Type.INT, "docs", dependents=below_a, recommender=Numbers(dependent=False)
    )
    definition.define("b", Type.INT, "docs", recommender=Numbers(dependent=True))
    definition.define("c", Type.INT, "docs", recommender=Numbers(dependent=True))
    if d_defined:
        definition.define(
            "d", Type.INT, "docs", dependents=["b"], recommender=Numbers(dependent=False)
        )
    return definition


def test_parse_reads_every_key_and_fills_in_defaults():
    definition = (
        ConfigDef()
        .define("a", Type.INT, "docs", default="5")
        .define("b", Type.LONG, "docs")
        .define("c", Type.STRING, "docs", default="hello")
        .define("d", Type.LIST, "docs", default=None)
        .define("e", Type.PASSWORD, "docs")
    )
    parsed = definition.parse({"b": "2", "d": "x,y", "e": "s", "unknown": "1"})
    secret = Password("s")
    assert parsed == {"a": 5, "b": 2, "c": "hello", "d": ["x", "y"], "e": secret}
    assert definition.parse({"b": "2", "e": "s", "c": None})["c"] is None


def test_nobody_can_change_a_default():
    definition = ConfigDef().define("l", Type.LIST, "docs", default="a,b")
    definition.parse({})["l"].append("c")
    definition.validate_all({})["l"].value.append("d")
    assert definition.parse({}) == {"l": ["a", "b"]}


def test_what_parse_refuses():
    definition = ConfigDef().define("a", Type.INT, "docs", validator=Range(at_least=1))
    with pytest.raises(ConfigError) as caught:
        definition.parse({})
    assert str(caught.value) == ('Missing required configuration "a" which has no default value.')
    with pytest.raises(ConfigError, match="Not a number of type INT"):
        definition.parse({"a": "x"})
    with pytest.raises(ConfigError, match="Value must be at least 1"):
        definition.parse({"a": "0"})
    with pytest.raises(ConfigError, match="not defined: d"):
        linked(d_defined=False).parse({"a": "1", "b": "1", "c": "1"})


def test_a_definition_is_checked_when_it_is_made():
    with pytest.raises(ConfigError, match="Not a number"):
        ConfigDef().define("a", Type.INT, "docs", default="hello")
    in_range = Range(at_least=0, at_most=10)
    with pytest.raises(ConfigError, match="at least 0"):
        ConfigDef().define("a", Type.INT, "docs", default=-1, validator=in_range)
    with pytest.raises(ConfigError, match="Configuration a is defined twice"):
        ConfigDef().define("a", Type.STRING, "").define("a", Type.INT, "")


def test_groups_come_in_order_of_appearance():
    definition = ConfigDef()
    for name, group in (("a", "two"), ("b", "one"), ("c", "two"), ("d", None)):
        definition.define(name, Type.INT, "docs", group=group)
    assert definition.groups == ["two", "one"]
    copy = ConfigDef(definition).define("e", Type.INT, "docs", group="three")
    assert (len(definition.keys), len(copy.keys)) == (4, 5)
    assert definition.groups == ["two", "one"]


def test_validation_looks_at_a_key_once_for_each_key_that_it_depends_on():
    missing_b, missing_c = (
        f'Missing required configuration "{name}" which has no default value.' for name in "bc"
    )
    found = linked().validate_all({"a": "1", "d": "10"})
    assert found == {
        "a": ConfigValue(name="a", value=1, recommended_values=[1, 2, 3]),
        "b": ConfigValue(
            name="b", recommended_values=[4, 5], error_messages=[missing_b, missing_b]
        ),
        "c": ConfigValue(name="c", recommended_values=[4, 5], error_messages=[missing_c]),
        "d": ConfigValue(name="d", value=10, recommended_values=[1, 2, 3]),
    }


def test_a_dependent_that_is_not_defined_is_an_error_and_hidden():
    found = linked(d_defined=False).validate_all({"a": "1"})
    assert found["d"] == ConfigValue(
        name="d",
        error_messages=["d is referred in the dependents, but not defined."],
        visible=False,
    )
    assert len(found["b"].error_messages) == 1


def test_what_cannot_be_parsed_is_told_and_shown_to_the_validator_as_null():
    definition = ConfigDef().define("a", Type.INT, "docs")
    (found,) = definition.validate({"a": "non_integer"})
    assert found.value is None
    assert found.error_messages == [
        "Invalid value non_integer for configuration a: Not a number of type INT"
    ]
    ranged = ConfigDef().define("a", Type.INT, "docs", validator=Range(at_least=1))
    (found,) = ranged.validate({"a": "x"})
    assert found.error_messages[1:] == [
        "Invalid value null for configuration a: Value must be non-null"
    ]


def test_advice_sees_the_other_values_and_may_fail():
    class Advice:
        def valid_values(self, name, parsed):
            if parsed["mode"] == "bad":
                raise config_types.build_invalid_value_error("mode", "bad", "no advice")
            return [parsed["mode"]]

        def visible(self, name, parsed):
            return parsed["mode"] == "advanced"

    definition = ConfigDef()
    definition.define("mode", Type.STRING, "docs", dependents=["detail"])
    definition.define("detail", Type.STRING, "docs", default="x", recommender=Advice())
    simple, advanced, bad = (
        definition.validate_all({"mode": mode})["detail"] for mode in ("simple", "advanced", "bad")
    )
    assert (simple.recommended_values, simple.visible) == (["simple"], False)
    assert (advanced.recommended_values, advanced.visible) == (["advanced"], True)
    assert bad.error_messages == ["Invalid value bad for configuration mode: no advice"]


def test_keys_that_depend_on_each_other_end():
    definition = ConfigDef()
    definition.define("root", Type.INT, "", default=1, dependents=["a"])
    definition.define("a", Type.INT, "", default=1, dependents=["b"])
    definition.define("b", Type.INT, "", default=1, dependents=["a"])
    assert list(definition.validate_all({})) == ["root", "a", "b"]


def test_prefixes():
    props = {"a.b": "1", "a.": "2", "a": "3", "b.a": "4"}
    assert config_def.with_prefix(props, "a.") == {"b": "1"}


def test_a_key_shows_its_name_unless_it_has_a_better_one():
    definition = (
        ConfigDef().define("a", Type.INT, "", display_name="The A").define("b", Type.INT, "")
    )
    assert [key.display_name for key in definition.keys.values()] == ["The A", "b"]


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
        validator=ValidString("on", "off"),
        group="Modes",
        dependents=["last"],
    )
    outer = config_def.ConfigDef().define("name", Type.STRING, "docs")
    config_def.embed(outer, child, key_prefix="transforms.x.", group="Transforms: x", first_order=5)
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
    config_def.embed(outer, child, key_prefix="x.", group="g")
    assert outer.keys["x.p"].default == Password("s3cret")
    assert "s3cret" not in repr(outer.keys["x.p"])
