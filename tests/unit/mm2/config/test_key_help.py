"""Every key has its sentence, and every sentence its key."""

from __future__ import annotations

import pytest

from connect_runtime.config.config_errors import SettingsError
from mm2.config import (
    config_loader,
    copy_engine_config,
    endpoints_section,
    flow_keys,
    hooks_section,
    key_help,
    mm2_only_keys,
    spark_section,
)
from mm2.config.section_reader import ConfigOption

SECTIONS = {
    "flows": key_help.FLOW_HELP,
    "spark": key_help.SPARK_HELP,
    "metrics": key_help.METRICS_HELP,
    "health": key_help.HEALTH_HELP,
    "drill": key_help.DRILL_HELP,
    "hooks": key_help.HOOKS_HELP,
    "rest": key_help.REST_HELP,
    "worker": key_help.WORKER_HELP,
}


def declared(module) -> set[str]:
    return {each.name for each in vars(module).values() if isinstance(each, ConfigOption)}


def test_what_readers_declare_is_explained_and_nothing_else():
    of_flows = declared(flow_keys) | {each.name for each in flow_keys.CONNECTOR_OPTIONS}
    assert set(key_help.FLOW_HELP) == of_flows | mm2_only_keys.NAMES
    ends = {*copy_engine_config.DRIVER_HOSTS, *copy_engine_config.DRIVER_PORTS}
    assert set(key_help.SPARK_HELP) == declared(spark_section) | ends | {"conf"}
    served = {*key_help.METRICS_HELP, *key_help.HEALTH_HELP, *key_help.DRILL_HELP}
    assert served == declared(endpoints_section)
    assert set(key_help.HOOKS_HELP) == declared(hooks_section)
    assert set(key_help.REST_HELP) == set(endpoints_section.REST_KEYS)
    assert set(key_help.WORKER_HELP) == set(endpoints_section.WORKER_KEYS)


@pytest.mark.parametrize("section", ["spark", "metrics", "health", "drill", "rest", "worker"])
def test_what_is_explained_is_known(section, tmp_path):
    """Each key with a value that no key takes: none of them is unknown."""
    given = "\n".join(f"  {key}: {{}}" for key in SECTIONS[section])
    text = (
        "clusters: {a: {bootstrap.servers: 'a:1'}, b: {bootstrap.servers: 'b:1'}}\n"
        f"flows: [{{from: a, to: b}}]\n{section}:\n{given}\n"
    )
    with pytest.raises(SettingsError) as raised:
        config_loader.parse_clusters_yaml(text, file="f", folder=tmp_path, environment={})
    assert [each for each in raised.value.problems if "not a known" in each.text] == []


def test_each_is_a_sentence():
    for section, told in SECTIONS.items():
        for key, text in told.items():
            assert text.endswith("."), (section, key)
            assert text[0].isupper() or text[0] == "`", (section, key)
