from __future__ import annotations

from connect_runtime.api import config_def, config_infos
from connect_runtime.api.config_def import ConfigDef, ConfigValue, Importance, Width
from connect_runtime.api.config_infos import ConfigInfo, ConfigInfos, ConfigKeyInfo, ConfigValueInfo
from connect_runtime.api.config_validators import Range

Type = config_def.Type


TOPICS = ConfigInfo(
    definition=ConfigKeyInfo(
        name="topics",
        type="LIST",
        required=False,
        default_value="a,b",
        importance="HIGH",
        documentation="Which",
        group="Common",
        order_in_group=3,
        width="LONG",
        display_name="Topics",
        dependents=("secret",),
    ),
    value=ConfigValueInfo(
        name="topics",
        value="a,b",
        recommended_values=("a",),
        errors=(),
        visible=True,
    ),
)
SECRET = ConfigInfo(
    definition=ConfigKeyInfo(
        name="secret",
        type="PASSWORD",
        required=True,
        default_value=None,
        importance="LOW",
        documentation="",
        group=None,
        order_in_group=-1,
        width="NONE",
        display_name="secret",
        dependents=(),
    ),
    value=ConfigValueInfo(
        name="secret",
        value="[hidden]",
        recommended_values=(),
        errors=(),
        visible=True,
    ),
)


def test_a_validation_in_the_terms_of_the_rest_api():
    definition = ConfigDef()
    definition.define(
        "topics",
        Type.LIST,
        "Which",
        default="a,b",
        group="Common",
        order_in_group=3,
        width=Width.LONG,
        display_name="Topics",
        dependents=["secret"],
    )
    definition.define("secret", Type.PASSWORD, "", importance=Importance.LOW)
    values = definition.validate({"secret": "hunter2"})
    values[0].recommended_values = ["a"]
    infos = config_infos.build_config_infos(
        "my.Connector", definition.keys, values=values, groups=definition.groups
    )
    assert infos == ConfigInfos(
        name="my.Connector",
        error_count=0,
        groups=("Common",),
        configs=(
            TOPICS,
            SECRET,
        ),
    )


def test_errors_are_counted_and_unknown_values_come_first():
    definition = ConfigDef().define("a", Type.INT, "", validator=Range(at_least=1))
    values = definition.validate({"a": "x"})
    values.append(ConfigValue(name="odd", value=True, error_messages=["one"]))
    infos = config_infos.build_config_infos("c", definition.keys, values=values, groups=[])
    first, second = infos.configs
    assert first.definition is None
    assert first.value is not None
    assert first.value.value == "true"
    assert second.definition is not None
    assert infos.error_count == 3 == len(infos.error_messages)


def test_a_key_that_nobody_reported_has_no_value():
    definition = ConfigDef().define("a", Type.INT, "")
    infos = config_infos.build_config_infos("c", definition.keys, values=[], groups=[])
    assert infos.configs[0].value is None
    assert infos.error_count == 0


def test_several_definitions_make_one_result():
    one = ConfigDef().define("a", Type.INT, "", group="G")
    part = config_infos.build_config_infos(
        "c", one.keys, values=one.validate({}), groups=one.groups
    )
    key = config_infos.build_key_info(one.keys["a"], prefix="producer.override.")
    assert key.name == "producer.override.a"
    both = config_infos.merge_config_infos(
        "c", [*part.configs, *part.configs], groups=["G", "H", "G"]
    )
    assert both.error_count == 2
    assert both.groups == ("G", "H")
