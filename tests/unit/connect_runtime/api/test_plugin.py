from __future__ import annotations

from connect_runtime.api.plugin import Plugin


def test_a_plugin_that_says_nothing_has_nothing_to_configure():
    one = Plugin()
    one.configure({"any": "thing"})
    assert one.config().keys == {}
    assert one.version() == "undefined"
    one.close()
