"""The section `hooks`."""

from __future__ import annotations

import pytest

from mm2.config import properties_conversion
from mm2.config.mm2_settings import HookCommand

BASE = """\
clusters:
  east: {bootstrap.servers: 'e:9092'}
  west: {bootstrap.servers: 'w:9092'}
flows:
  - {from: east, to: west}
hooks:
"""


def test_commands_at_steps(read):
    found = read(
        BASE
        + "  stop-producers: {command: [drain, '--a,b'], timeout.ms: 1500}\n"
        + "  start-consumers:\n    command:\n      - start\n      - ${env:TOKEN}\n",
        {"TOKEN": "geheim"},
    )
    assert found.hooks == {
        "stop-producers": HookCommand(command=("drain", "--a,b"), timeout_s=1.5),
        "start-consumers": HookCommand(command=("start", "geheim"), timeout_s=300.0),
    }
    assert found.secret_environment == {"TOKEN"}
    assert "geheim" not in repr(found)
    assert found.effective["hooks"]["stop-producers"] == {
        "command": ["drain", "[hidden]"],
        "timeout.ms": 1500,
    }, "an argument may be a secret"


def test_without_any(read):
    found = read(BASE.removesuffix("hooks:\n"))
    assert found.hooks == {}
    assert "hooks" not in found.effective


@pytest.mark.parametrize(
    ("text", "key", "words"),
    [
        ("  stop-producer: {command: [x]}\n", "hooks.stop-producer", "is not a hook"),
        ("  fence: {command: [x]}\n", "hooks.fence", "is not a hook"),
        ("  stop-producers: {command: 'x --all'}\n", "hooks.stop-producers.command", "a list"),
        ("  stop-producers: {command: []}\n", "hooks.stop-producers.command", "a list"),
        ("  stop-producers: {command: ['']}\n", "hooks.stop-producers.command", "a list"),
        ("  stop-producers: {timeout.ms: 5}\n", "hooks.stop-producers", "command is missing"),
        ("  stop-producers: [x]\n", "hooks.stop-producers", ""),
        (
            "  stop-producers: {command: [x], timeout.ms: 0}\n",
            "hooks.stop-producers.timeout.ms",
            "",
        ),
        ("  stop-producers: {command: [x], shell: true}\n", "hooks.stop-producers.shell", "not"),
    ],
)
def test_mistakes_have_their_line(wrong, text, key, words):
    (found,) = wrong(BASE + text)
    assert (found.line, found.key) == (7, key)
    assert words in found.text


def test_the_other_form_of_file_has_none_and_that_is_told(read):
    given = read(BASE + "  stop-producers: {command: [drain]}\n")
    assert properties_conversion.diff_settings(given, read(BASE.removesuffix("hooks:\n"))) == [
        "hooks"
    ]
