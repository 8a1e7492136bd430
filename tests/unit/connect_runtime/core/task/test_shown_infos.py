from __future__ import annotations

from connect_runtime.api import config_def, config_infos, config_types
from connect_runtime.core.task import shown_infos

NAMES = {"builtins.str": "java.lang.String", "builtins.int": "java.lang.Integer"}


def infos(config, *, told=()):
    keys = (
        config_def.ConfigDef()
        .define("of", config_def.Type.CLASS, "", default=str)
        .define("file", config_def.Type.STRING, "", default="")
        .define("secret", config_def.Type.PASSWORD, "", default="")
    )
    found = keys.validate_all(config)
    found["of"].recommended_values = [str, int, dict]
    for name, message in told:
        found[name].error_messages.append(message)
    return config_infos.collect("c", keys.keys, values=list(found.values()), groups=[])


def shown(config, *, given=None, told=()):
    found = shown_infos.shown(
        infos(config, told=told), given=given or config, resolved=config, names=NAMES
    )
    return {each.value.name: each for each in found.configs}


def test_classes_have_the_names_that_users_write():
    told = [("of", "Class class builtins.int does not convert")]
    of = shown({"of": int}, told=told)["of"]
    assert of.definition.default_value == "java.lang.String"
    assert of.value.value == "java.lang.Integer"
    assert of.value.recommended_values == ("builtins.dict", "java.lang.Integer", "java.lang.String")
    assert of.value.errors == ("Class class java.lang.Integer does not convert",)
    assert shown({"of": None})["of"].value.value is None


def test_a_text_that_is_no_class_stays():
    assert shown({"file": "builtins.str"})["file"].value.value == "builtins.str"


def test_what_a_provider_gave_is_not_shown():
    given = {"file": "${p:f}", "secret": "${p:s}"}
    told = [("file", "there is no hush")]
    found = shown({"file": "hush", "secret": "hush"}, given=given, told=told)
    assert found["file"].value.value == "${p:f}"
    assert found["secret"].value.value == config_types.HIDDEN
    assert found["file"].value.errors == (
        "Invalid value ${p:f} for configuration file: what it stands for is not valid",
    )
    assert "hush" not in str(found)


def test_keys_alone():
    key = config_infos.key_info(
        config_def.ConfigKey(name="of", type=config_def.Type.CLASS, default=int)
    )
    [found] = shown_infos.keys([key], NAMES)
    assert found.default_value == "java.lang.Integer"
