from __future__ import annotations

import collections
import math
import pickle

import pytest

from connect_runtime.api import config_types
from connect_runtime.api.config_types import Password
from connect_runtime.api.errors import ConfigError

Type = config_types.Type


@pytest.mark.parametrize(
    ("of", "given", "expected"),
    [
        (Type.BOOLEAN, " TRUE ", True),
        (Type.BOOLEAN, "FalSE", False),
        (Type.BOOLEAN, True, True),
        (Type.STRING, "  a b \n", "a b"),
        (Type.STRING, "\u00a0kept", "\u00a0kept"),
        (Type.INT, "1   ", 1),
        (Type.INT, "+7", 7),
        (Type.INT, "-2147483648", -(2**31)),
        (Type.INT, 5, 5),
        (Type.SHORT, "32767", 32767),
        (Type.LONG, 2, 2),
        (Type.LONG, "9223372036854775807", 2**63 - 1),
        (Type.DOUBLE, 42.5, 42.5),
        (Type.DOUBLE, 42, 42.0),
        (Type.DOUBLE, " 1e3", 1000.0),
        (Type.DOUBLE, ".5d", 0.5),
        (Type.DOUBLE, "-Infinity", -math.inf),
        (Type.LIST, " a , b, c", ["a", "b", "c"]),
        (Type.LIST, "a,,b,", ["a", "", "b", ""]),
        (Type.LIST, "  ", []),
        (Type.LIST, "a\u00a0,b", ["a\u00a0", "b"]),  # blanks are ASCII's, as in Java
        (Type.LIST, ("a",), ["a"]),
        (Type.CLASS, "collections.OrderedDict", collections.OrderedDict),
        (Type.CLASS, "collections:OrderedDict", collections.OrderedDict),
        (Type.CLASS, dict, dict),
        (Type.PASSWORD, " secret ", Password("secret")),
        (Type.INT, None, None),
        (Type.BOOLEAN, None, None),
    ],
)
def test_what_is_read(of, given, expected):
    parsed = config_types.parse_value("name", given, of)
    assert parsed == expected
    assert type(parsed) is type(expected)


@pytest.mark.parametrize(
    ("of", "given", "why"),
    [
        (Type.BOOLEAN, "truee", "Expected value to be either true or false"),
        (Type.BOOLEAN, 1, "Expected value to be either true or false"),
        (Type.STRING, 5, "Expected value to be a string, but it was a int"),
        (Type.INT, "hello", "Not a number of type INT"),
        (Type.INT, "42.5", "Not a number of type INT"),
        (Type.INT, "1_000", "Not a number of type INT"),
        (Type.INT, "", "Not a number of type INT"),
        (Type.INT, "9" * 5000, "Not a number of type INT"),
        (Type.INT, str(2**31), "Not a number of type INT"),
        (Type.INT, 42.5, "Expected value to be a 32-bit integer, but it was a float"),
        (Type.INT, True, "Expected value to be a 32-bit integer, but it was a bool"),
        (Type.SHORT, "32768", "Not a number of type SHORT"),
        (Type.LONG, str(2**63), "Not a number of type LONG"),
        (Type.DOUBLE, "hello", "Not a number of type DOUBLE"),
        (Type.DOUBLE, "inf", "Not a number of type DOUBLE"),
        (Type.LIST, 53, "Expected a comma separated list."),
        (Type.CLASS, "no.such.Class", "Class no.such.Class could not be found."),
        (Type.CLASS, "collections.abc", "Class collections.abc could not be found."),
        (Type.CLASS, "NoDots", "Class NoDots could not be found."),
        (Type.CLASS, 7, "Expected a Class instance or class name."),
    ],
)
def test_what_is_refused_and_how(of, given, why):
    with pytest.raises(ConfigError) as caught:
        config_types.parse_value("key", given, of)
    assert str(caught.value) == (
        f"Invalid value {config_types.format_value_for_message(given)} for configuration key: {why}"
    )


def test_a_password_is_never_printed():
    secret = config_types.parse_value("p", "hunter2", Type.PASSWORD)
    assert secret.value == "hunter2"
    assert "hunter2" not in f"{secret} {secret!r} {[secret]}"
    assert config_types.format_config_value(secret, Type.PASSWORD) == "[hidden]"
    assert pickle.loads(pickle.dumps(secret)) == secret
    with pytest.raises(ConfigError) as caught:
        config_types.parse_value("p", 12345, Type.PASSWORD)
    assert "12345" not in str(caught.value)


def test_the_worker_may_find_classes_in_its_own_way():
    def load(name: str) -> type:
        if name == "JsonConverter":
            return dict
        raise LookupError(name)

    assert config_types.parse_value("c", "JsonConverter", Type.CLASS, load=load) is dict
    with pytest.raises(ConfigError, match="Class Other could not be found"):
        config_types.parse_value("c", "Other", Type.CLASS, load=load)


@pytest.mark.parametrize(
    ("value", "of", "text"),
    [
        (None, Type.INT, None),
        (True, Type.BOOLEAN, "true"),
        (5, Type.INT, "5"),
        (["a", "b"], Type.LIST, "a,b"),
        ([], Type.LIST, ""),
        (collections.OrderedDict, Type.CLASS, "collections.OrderedDict"),
        ("x", None, "x"),
    ],
)
def test_back_to_text(value, of, text):
    assert config_types.format_config_value(value, of) == text


def test_nulls_and_lists_are_shown_as_in_java():
    assert config_types.format_value_for_message(None) == "null"
    assert config_types.format_value_for_message(["a", True]) == "[a, true]"
    assert (
        str(config_types.build_invalid_value_error("k", None))
        == "Invalid value null for configuration k"
    )
