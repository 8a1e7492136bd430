"""The table of halt reasons is that of the code: whoever reads a code finds it in the guide."""

from __future__ import annotations

import re

import pytest

from mm2 import suggested_commands
from mm2.connectors import mirror_topic_writer
from mm2.replication.partition_halt_messages import HaltCause, PartitionHalt
from mm2.suggested_commands import OperatorCommands
from tests.support import printed
from tests.support.deployed import image

GUIDE = image.ROOT / "docs" / "guides" / "halt-reasons.md"
RUNBOOK = image.ROOT / "deploy" / "runbooks" / "Mm2PartitionsHalted.md"
_ROW = re.compile(r"^\| `([a-z-]+)` \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
_TOOL = re.compile(r"mm2 (?:topic reset|restart|reload|offsets (?:rebuild|skip))|kafka-[a-z]+\.sh")


def rows() -> dict[str, tuple[str, str, str]]:
    found = _ROW.findall(GUIDE.read_text())
    assert len({code for code, *_ in found}) == len(found)
    return {code: (meaning, again, remedy) for code, meaning, again, remedy in found}


CODES = [*(each.value for each in HaltCause), *mirror_topic_writer.MIRROR_PROBLEM_CAUSES]


def halts() -> list[PartitionHalt]:
    return list(printed.halts(OperatorCommands()))


def test_every_code_is_explained_once_and_no_other():
    assert sorted(rows()) == sorted(CODES)


@pytest.mark.parametrize("cause", HaltCause, ids=lambda each: each.value)
def test_the_row_says_whether_it_is_tried_again(cause):
    found = {each.retry_after_s is not None for each in halts() if each.cause is cause}
    _, again, _ = rows()[cause.value]
    assert found, f"no halt of {cause} is made in tests.support.printed"
    assert again.startswith("yes" if True in found else "no")
    if found == {True, False}:
        assert again.startswith(("yes where", "yes, unless"))


@pytest.mark.parametrize("cause", HaltCause, ids=lambda each: each.value)
def test_the_row_has_the_remedy_that_is_printed(cause):
    said = " ".join(rows()[cause.value])
    lines = [
        suggested_commands.extract_remedy_from_message(each.message)
        for each in halts()
        if each.cause is cause
    ]
    tools = {tool for line in lines for tool in _TOOL.findall(line)}
    if "mm2 topic reset" in tools or "mm2 restart" in tools:
        assert tools & set(_TOOL.findall(said)), (tools, said)


def test_the_runbook_of_the_alert_has_all_codes_and_leads_to_the_guide():
    text = RUNBOOK.read_text()
    assert "halt-reasons.md" in text
    for code in CODES:
        assert f"`{code}`" in text
