from __future__ import annotations

from connect_runtime.app.cli import exits


def test_codes_are_those_of_javas_commands():
    codes = (exits.DONE, exits.USAGE, exits.ENDED, exits.BAD_SETTINGS, exits.NOT_STARTED)
    assert codes == (0, 1, 1, 2, 3)
