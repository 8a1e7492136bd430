"""Every key has its sentence, and every sentence its key."""

from __future__ import annotations

import pytest

from connect_runtime.config.config_errors import SettingsError
from mm2.config import (
    config_key_descriptions,
    config_loader,
    copy_engine_config,
    endpoints_section,
    flow_config_keys,
    hooks_section,
    mm2_only_keys,
    spark_section,
)
from mm2.config.yaml_section_reader import ConfigOption

SECTIONS = {
    "flows": config_key_descriptions.FLOW_HELP,
    "spark": config_key_descriptions.SPARK_HELP,
    "metrics": config_key_descriptions.METRICS_HELP,
    "health": config_key_descriptions.HEALTH_HELP,
    "drill": config_key_descriptions.DRILL_HELP,
    "hooks": config_key_descriptions.HOOKS_HELP,
    "rest": config_key_descriptions.REST_HELP,
    "worker": config_key_descriptions.WORKER_HELP,
}


def declared(module) -> set[str]:
    return {each.name for each in vars(module).values() if isinstance(each, ConfigOption)}


def test_what_readers_declare_is_explained_and_nothing_else():
    of_flows = declared(flow_config_keys) | {
        each.name for each in flow_config_keys.CONNECTOR_OPTIONS
    }
    assert set(config_key_descriptions.FLOW_HELP) == of_flows | mm2_only_keys.NAMES
    ends = {*copy_engine_config.DRIVER_HOSTS, *copy_engine_config.DRIVER_PORTS}
    assert set(config_key_descriptions.SPARK_HELP) == declared(spark_section) | ends | {"conf"}
    served = {
        *config_key_descriptions.METRICS_HELP,
        *config_key_descriptions.HEALTH_HELP,
        *config_key_descriptions.DRILL_HELP,
    }
    assert served == declared(endpoints_section)
    assert set(config_key_descriptions.HOOKS_HELP) == declared(hooks_section)
    assert set(config_key_descriptions.REST_HELP) == set(endpoints_section.REST_KEYS)
    assert set(config_key_descriptions.WORKER_HELP) == set(endpoints_section.WORKER_KEYS)


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
