"""`java_hash_map_json.txt` is what Apache Kafka 4.3.1's JsonConverter wrote: a name, a tab, the
bytes."""

from __future__ import annotations

import datetime
import pathlib
from decimal import Decimal

import pytest

from connect_runtime.api import logical_types, schema
from connect_runtime.api.schema import SchemaAndValue
from connect_runtime.api.schema_builder import SchemaBuilder
from connect_runtime.api.structs import Struct
from connect_runtime.plugins.json_converter import JsonConverter

Builder = SchemaBuilder
FILE = pathlib.Path(__file__).with_name("java_json.txt")
JAVA = dict(line.split("\t") for line in FILE.read_bytes().decode().split("\n") if line)
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def after_ms(count: int) -> datetime.datetime:
    return EPOCH + datetime.timedelta(milliseconds=count)


ORDER = (
    Builder.struct()
    .name("com.example.Order")
    .version(3)
    .doc('An "order"')
    .parameters({"a": "1", "b": "2"})
    .field("i8", schema.INT8_SCHEMA)
    .field("i64", schema.OPTIONAL_INT64_SCHEMA)
    .field("f32", schema.FLOAT32_SCHEMA)
    .field("f64", schema.FLOAT64_SCHEMA)
    .field("b", schema.BOOLEAN_SCHEMA)
    .field("s", Builder.string().default("x\u00e9"))
    .field("y", schema.BYTES_SCHEMA)
    .field("arr", Builder.array(schema.OPTIONAL_STRING_SCHEMA).optional())
    .field("map", Builder.map(schema.STRING_SCHEMA, schema.INT32_SCHEMA))
    .field("imap", Builder.map(schema.INT32_SCHEMA, schema.INT32_SCHEMA))
    .field("dec", logical_types.decimal_schema(2))
    .field("date", logical_types.DATE_SCHEMA)
    .field("time", logical_types.TIME_SCHEMA)
    .field("ts", logical_types.timestamp_builder().optional().default(after_ms(42)))
    .build()
)
FULL = Struct(
    ORDER,
    {
        "i8": -5,
        "i64": 4398046511104,
        "f32": 12.34,
        "f64": 1e10,
        "b": True,
        "s": 'q"\\/\x01\x1f\x7f\u00e9\u20ac\U0001f600\u2028',
        "y": b"\xff\xfe\x00",
        "arr": ["a", None],
        "map": {"k\x01\U0001f600": 7},
        "imap": {1: 12, 2: 15},
        "dec": Decimal("-1.56"),
        "date": datetime.date(1997, 5, 19),
        "time": datetime.time(4),
        "ts": after_ms(4_000_000_000),
    },
)
SPARSE = Struct(
    ORDER,
    {
        "i8": 1,
        "f32": 1.0,
        "f64": 0.1,
        "b": False,
        "y": b"",
        "map": {},
        "imap": {},
        "dec": Decimal("0.01"),
        "date": datetime.date(1970, 1, 1),
        "time": datetime.time(0),
    },
)
OTHERS = {
    "null": (schema.OPTIONAL_STRING_SCHEMA, None),
    "sl": (None, [1, "x", True, None, 12.24]),
    "slm": (None, {"a": 1, 52: "b"}),
    "dec3": (logical_types.decimal_schema(-3), Decimal("1E+3")),
    "dec9": (logical_types.decimal_schema(9), Decimal("1E-9")),
    "nullkey": (
        Builder.map(schema.OPTIONAL_STRING_SCHEMA, schema.INT8_SCHEMA).build(),
        {None: 1},
    ),
    "defs": (Builder.float32().optional().default(1.5).doc("d").version(1).build(), None),
}


def written(described, value, **configs: str) -> str:
    one = JsonConverter()
    one.configure({name.replace("_", "."): each for name, each in configs.items()})
    payload = one.encode(SchemaAndValue(described, value))
    assert payload is not None
    return payload.decode()


@pytest.mark.parametrize(("name", "value"), [("struct", FULL), ("struct2", SPARSE)])
def test_structs_with_everything(name, value):
    assert written(ORDER, value) == JAVA[f"true-BASE64-{name}"]
    plain = written(ORDER, value, schemas_enable="false", decimal_format="numeric")
    assert plain == JAVA[f"false-NUMERIC-{name}"]


@pytest.mark.parametrize("name", OTHERS)
def test_other_values(name):
    described, value = OTHERS[name]
    assert written(described, value) == JAVA[f"true-BASE64-{name}"]


@pytest.mark.parametrize(
    ("letter", "bits"), [("d", schema.FLOAT64_SCHEMA), ("f", schema.FLOAT32_SCHEMA)]
)
def test_numbers_with_a_point(letter, bits):
    """Their names are the numbers as Java prints them."""
    prefix = f"true-BASE64-{letter}"
    numbers = [name.removeprefix(prefix) for name in JAVA if name.startswith(prefix)]
    numbers = [each for each in numbers if each[0] in "-0123456789NI"]
    assert len(numbers) > 10
    for each in numbers:
        assert written(bits, float(each)) == JAVA[prefix + each]


@pytest.mark.parametrize("value", [FULL, SPARSE])
def test_what_java_wrote_is_read(value):
    one = JsonConverter()
    one.configure({})
    name = "struct" if value is FULL else "struct2"
    found = one.decode(JAVA[f"true-BASE64-{name}"].encode()).value
    assert found.schema == ORDER
    for each in ORDER.fields:
        expected = value[each.name]
        if each.name == "f32":
            assert found["f32"] == pytest.approx(expected)
        else:
            assert found[each.name] == expected
