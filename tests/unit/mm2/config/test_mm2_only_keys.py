"""Keys of flows that MirrorMaker 2 does not have: one declaration for every form."""

from __future__ import annotations

import dataclasses

import pytest

from mm2.config import mirror_connector_config_keys, mm2_only_keys
from mm2.config.mm2_only_keys import ExtensionKey
from mm2.topics.flow_config import DeliveryMode, Flow

DECLARED = [each for each in vars(mm2_only_keys).values() if isinstance(each, ExtensionKey)]


def test_every_declared_key_is_listed_once():
    assert list(mm2_only_keys.ALL) == DECLARED
    assert len(mm2_only_keys.NAMES) == len(DECLARED)


@pytest.mark.parametrize("key", DECLARED, ids=lambda key: key.name)
def test_files_and_connectors_have_the_same_default(key):
    """But for keys whose value depends on others: connectors have no value then."""
    default = mirror_connector_config_keys.EXTENSION_KEYS.parse({})[key.name]
    if not key.flow_field:
        assert not default
        return
    texts = key.option.default if isinstance(key.option.default, tuple) else (key.option.default,)
    assert default == key.option.kind.parse(texts)
    fields = mm2_only_keys.build_single_key_flow_fields(lambda each: each.connector_default)
    flow = Flow(source="a", target="b")
    assert fields[key.flow_field] == getattr(flow, key.flow_field)


def test_fields_of_a_flow_are_built_from_the_values_read():
    given = {each.name: each.connector_default for each in mm2_only_keys.ALL}
    given["delivery"] = "transactional"
    fields = mm2_only_keys.build_single_key_flow_fields(lambda key: given[key.name])
    assert fields["delivery"] is DeliveryMode.TRANSACTIONAL
    assert fields.keys() <= {each.name for each in dataclasses.fields(Flow)}
