"""Transforms of the user's on a copy's records: configured as in Connect, refused where they go too
far."""

from __future__ import annotations

import types
from typing import cast

import pytest

from connect_runtime.api.errors import DataError
from mm2.formats.record_codec import RecordFields
from mm2.replication import outbound_batches, record_transforms
from mm2.replication.partition_setup import PartitionSetup
from mm2.replication.record_transforms import TransformChain, TransformChainError
from tests.support import own_classes

OWN = own_classes.NAME
HERE = cast(PartitionSetup, types.SimpleNamespace(remote_topic="a.t", partition=3))
STAMP = {
    "transforms": "stamp",
    "transforms.stamp.type": f"{OWN}:Stamp",
    "transforms.stamp.stamp": "new ",
}


def chain(props: dict[str, str]) -> TransformChain:
    found = record_transforms.create_chain(props)
    assert found is not None
    return found


def applied(props: dict[str, str], fields: RecordFields) -> RecordFields | None:
    return chain(props).bind_partition(HERE)(fields, 17)


def test_without_transforms_there_is_no_chain():
    assert record_transforms.create_chain({"topics": "x", "transforms": " "}) is None
    assert (
        record_transforms.select_transform_keys({"predicates": "p", "predicates.p.type": "x"}) == {}
    )


def test_a_record_goes_through_the_users_class():
    before = RecordFields(b"k", b"v", ((b"h", None), (b"h", b"1")))
    assert applied(STAMP, before) == before._replace(value=b"new v")
    assert applied(STAMP | {"transforms.stamp.without": "v"}, before) is None


@pytest.mark.parametrize("name", [b"\xff\xfe", b"a\xed\xa0\x80", "\u00e9\U0001f600".encode(), b""])
def test_names_of_headers_stay_what_they_are_byte_for_byte(name):
    before = RecordFields(b"k", b"v", ((name, b"1"), (b"h", None)))
    assert applied(STAMP, before) == before._replace(value=b"new v")


def test_the_steps_follow_each_other_in_their_order():
    two = STAMP | {
        "transforms": "stamp, other",
        "transforms.other.type": f"{OWN}:Stamp",
        "transforms.other.stamp": "newer ",
    }
    found = applied(two, RecordFields(None, b"v"))
    assert found is not None
    assert found.value == b"newer new v"


@pytest.mark.parametrize(("negate", "changed"), [("false", b"k"), ("TRUE", None)])
def test_a_predicate_chooses_records(negate, changed):
    props = STAMP | {
        "predicates": "keyed",
        "predicates.keyed.type": f"{OWN}:HasKey",
        "transforms.stamp.predicate": "keyed",
        "transforms.stamp.negate": negate,
    }
    for key in (b"k", None):
        found = applied(props, RecordFields(key, b"v"))
        assert found is not None
        assert found.value == (b"new v" if key == changed else b"v")


def test_other_settings_are_another_chain_and_secrets_are_not_in_its_name():
    one, same = chain(STAMP), chain(dict(reversed(STAMP.items())))
    other = chain(STAMP | {"transforms.stamp.without": "secret"})
    hashes = [
        outbound_batches.hash_transform(each.bind_partition(HERE)) for each in (one, same, other)
    ]
    assert hashes[0] == hashes[1] != hashes[2]
    assert "secret" not in other.name
    assert f"stamp ({OWN}.Stamp)" in other.name


def test_a_chain_repeats_itself_only_if_all_its_steps_do():
    assert chain(STAMP).bind_partition(HERE).deterministic
    mixed = STAMP | {"transforms": "stamp,text", "transforms.text.type": f"{OWN}:Text"}
    assert not chain(mixed).bind_partition(HERE).deterministic


@pytest.mark.parametrize(("name", "repeats"), [("HasKey", True), ("Sometimes", False)])
def test_a_chain_repeats_itself_only_if_its_predicates_do(name, repeats):
    props = STAMP | {
        "predicates": "chosen",
        "predicates.chosen.type": f"{OWN}:{name}",
        "transforms.stamp.predicate": "chosen",
    }
    assert chain(props).bind_partition(HERE).deterministic == repeats
    unused = props | {"transforms.stamp.predicate": ""}
    assert chain(unused).bind_partition(HERE).deterministic


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Reroute", "transform changed the topic from a.t to elsewhere, which"),
        ("Text", "transform changed the value to str: only bytes are supported"),
    ],
)
def test_what_goes_too_far_is_refused_record_by_record(name, words):
    props = {"transforms": "x", "transforms.x.type": f"{OWN}:{name}"}
    with pytest.raises(DataError, match=words):
        applied(props, RecordFields(None, b"v"))


@pytest.mark.parametrize(
    ("props", "key", "words"),
    [
        ({"transforms": "x"}, "transforms.x.type", "is missing"),
        ({"transforms.stamp.type": "no.such:X"}, "transforms.stamp.type", "class no.such"),
        (
            {"transforms.stamp.type": f"{OWN}:Keeps"},
            "transforms.stamp.type",
            "is not a Transformation",
        ),
        ({"transforms.stamp.stamp": None}, "transforms.stamp.stamp", "stamp"),
        (
            {"transforms.stamp.predicate": "p"},
            "transforms.stamp.predicate",
            "names an unknown predicate",
        ),
        ({"transforms.stamp.negate": "yes"}, "transforms.stamp.negate", "must be true or false"),
        ({"predicates": "p"}, "predicates.p.type", "is missing"),
    ],
)
def test_what_is_wrong_is_told_by_its_key(props, key, words):
    given = {name: value for name, value in {**STAMP, **props}.items() if value is not None}
    with pytest.raises(TransformChainError, match=words) as caught:
        record_transforms.create_chain(given)
    assert caught.value.key == key
