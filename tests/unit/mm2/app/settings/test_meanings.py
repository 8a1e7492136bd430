"""Every key has its sentence, and every sentence its key."""

from __future__ import annotations

import pytest

from connect_runtime.app.settings import problems
from mm2.app.settings import (
    endpoint_reader,
    flow_options,
    hooks_reader,
    load,
    meanings,
    reader,
    spark_reader,
)
from mm2.core.configs import engine_settings

SECTIONS = {
    "flows": meanings.FLOWS,
    "spark": meanings.SPARK,
    "metrics": meanings.METRICS,
    "health": meanings.HEALTH,
    "drill": meanings.DRILL,
    "hooks": meanings.HOOKS,
    "rest": meanings.REST,
    "worker": meanings.WORKER,
}


def declared(module) -> set[str]:
    return {each.name for each in vars(module).values() if isinstance(each, reader.Option)}


def test_what_readers_declare_is_explained_and_nothing_else():
    of_flows = declared(flow_options) | {each.name for each in flow_options.CONNECTORS}
    assert set(meanings.FLOWS) == of_flows | {flow_options.TARGET_TOPICS_NAME}
    ends = {*engine_settings.DRIVER_HOSTS, *engine_settings.DRIVER_PORTS}
    assert set(meanings.SPARK) == declared(spark_reader) | ends | {"conf"}
    served = {*meanings.METRICS, *meanings.HEALTH, *meanings.DRILL}
    assert served == declared(endpoint_reader)
    assert set(meanings.HOOKS) == declared(hooks_reader)
    assert set(meanings.REST) == set(endpoint_reader.REST)
    assert set(meanings.WORKER) == set(endpoint_reader.WORKER)


@pytest.mark.parametrize("section", ["spark", "metrics", "health", "drill", "rest", "worker"])
def test_what_is_explained_is_known(section, tmp_path):
    """Each key with a value that no key takes: none of them is unknown."""
    given = "\n".join(f"  {key}: {{}}" for key in SECTIONS[section])
    text = (
        "clusters: {a: {bootstrap.servers: 'a:1'}, b: {bootstrap.servers: 'b:1'}}\n"
        f"flows: [{{from: a, to: b}}]\n{section}:\n{given}\n"
    )
    with pytest.raises(problems.SettingsError) as raised:
        load.parse(text, file="f", folder=tmp_path, environment={})
    assert [each for each in raised.value.problems if "not a known" in each.text] == []


def test_each_is_a_sentence():
    for section, told in SECTIONS.items():
        for key, text in told.items():
            assert text.endswith("."), (section, key)
            assert text[0].isupper() or text[0] == "`", (section, key)
