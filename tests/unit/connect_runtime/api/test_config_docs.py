from __future__ import annotations

import pytest

from connect_runtime.api import config_def, config_docs, config_validators

Type = config_def.Type
Importance = config_def.Importance


def some() -> config_def.ConfigDef:
    return (
        config_def.ConfigDef()
        .define("z", Type.STRING, "Last word.", default="", group="Two", dependents=["a"])
        .define("a", Type.INT, "One.\n\nTwo.", group="One", order_in_group=2)
        .define("b", Type.LONG, "", default=60000, group="One", order_in_group=1)
        .define("low", Type.STRING, "", importance=Importance.LOW)
        .define("high", Type.STRING, "", validator=config_validators.NonEmptyString())
        .define("given", Type.STRING, "", default=None)
        .define("hidden", Type.STRING, "", default="", internal=True)
    )


def test_keys_come_by_group_order_need_importance_and_name():
    names = [key.name for key in config_docs.in_order(some())]
    assert names == ["high", "low", "given", "hidden", "z", "b", "a"]


def test_the_text():
    text = config_docs.to_rst(some())
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
    key = config_def.ConfigKey(name=name, type=Type.LONG, default=default)
    assert config_docs.default_text(key) == shown


def test_a_secret_default_stays_secret():
    key = config_def.ConfigKey(name="p", type=Type.PASSWORD, default="hunter2")
    assert config_docs.default_text(key) == "[hidden]"
