from __future__ import annotations

from connect_runtime.kafka_client import client_settings
from mm2.core.configs import client_properties
from mm2.pipeline import client_options


def test_a_property_is_either_taken_or_refused():
    assert not set(client_properties.TAKEN) & set(client_properties.REFUSED)
    for names in (client_properties.TAKEN, client_properties.REFUSED):
        assert not [n for n in names if n.startswith(client_properties.SECURITY_PREFIXES)]


def test_a_property_is_taken_where_something_acts_on_it():
    shared = {*client_settings.SHARED, *client_settings.NAMED}
    acted_on = shared | client_options.NAMES | {"bootstrap.servers"}
    assert set(client_properties.TAKEN) == acted_on


def test_every_refusal_says_why():
    for name, reason in client_properties.REFUSED.items():
        assert len(reason) > 20, name
