"""What Java's own classes read in record sets, and which sets they build, in one JVM for all.

Both files of `RecordOracle.java` hold (big-endian, sizes i32, -1 for null):

    question  count i32, then for each: 0 i8, size, set
              or 1 i8, magic i8, codec i8, append time i8, transactional i8, the append time i64,
              base offset i64, record count i32, records
    answer    for each: size, set; size, why it cannot be read (UTF-8, empty when it can);
              size, records
    record    offset i64, timestamp i64, size, key, size, value, header count i32,
              headers: size, name, size, value
"""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from connect_runtime.system import java_installation
from mm2.copier.spark import jvm
from mm2.formats import record_codec
from mm2.formats.record_codec import BatchRecord, RecordFields
from mm2.sandbox import kafka_jars

_PROGRAM = Path(__file__).with_name("RecordOracle.java")
_CLASS = "tests.interop.RecordOracle"
_TIMEOUT_S = 100.0
_SIZE = struct.Struct(">i")
_PLACE = struct.Struct(">qq")


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """A set for Java to build of records at their offsets, under `append_ms` if that is given."""

    records: Sequence[BatchRecord]
    magic: int
    codec: int
    append_ms: int | None = None
    transactional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A set, and the records that Java finds in it; or why it does not."""

    set: bytes
    records: list[BatchRecord]
    failure: str


def ask(folder: Path, questions: Sequence[bytes | Build]) -> list[Reading]:
    """Each is a set to read, or one to build and to read then."""
    question, answer = folder / "question.bin", folder / "answer.bin"
    parts = [_SIZE.pack(len(questions))]
    parts += [_build(e) if isinstance(e, Build) else b"\0" + _sized(e) for e in questions]
    question.write_bytes(b"".join(parts))
    argv = [
        str(java_installation.find_java().program),
        "-XX:TieredStopAtLevel=1",
        "-Xmx1g",
        "-cp",
        _class_path(),
    ]
    argv += ["org.codehaus.janino.SimpleCompiler", str(_PROGRAM), _CLASS]
    done = subprocess.run(
        [*argv, str(question), str(answer)],
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[:2000] + done.stderr[:3000]
    return list(_answers(answer.read_bytes(), count=len(questions)))


def _class_path() -> str:
    sparks = jvm.find_spark_home() / "jars"
    compiler = [*sparks.glob("janino-*.jar"), *sparks.glob("commons-compiler-*.jar")]
    assert len(compiler) == 2, compiler
    return os.pathsep.join([f"{kafka_jars.ensure_jars()}/*", *map(str, compiler)])


def _build(each: Build) -> bytes:
    appended = each.append_ms is not None
    parts = [
        struct.pack(
            ">bbb??qqi",
            1,
            each.magic,
            each.codec,
            appended,
            each.transactional,
            each.append_ms if each.append_ms is not None else -1,
            each.records[0].offset,
            len(each.records),
        )
    ]
    for record in each.records:
        fields = record_codec.decode_record_body(record.body)
        parts += [_PLACE.pack(record.offset, record.timestamp)]
        parts += [_sized(fields.key), _sized(fields.value), _SIZE.pack(len(fields.headers))]
        for name, value in fields.headers:
            parts += [_sized(name), _sized(value)]
    return b"".join(parts)


def _sized(content: bytes | None) -> bytes:
    return _SIZE.pack(-1) if content is None else _SIZE.pack(len(content)) + content


def _answers(data: bytes, *, count: int) -> Iterator[Reading]:
    at = 0
    for _ in range(count):
        whole, at = _read_sized(data, at)
        failure, at = _read_sized(data, at)
        found, at = _read_sized(data, at)
        assert whole is not None
        assert failure is not None
        assert found is not None
        yield Reading(set=whole, records=list(_records(found)), failure=failure.decode())
    assert at == len(data)


def _records(data: bytes) -> Iterator[BatchRecord]:
    at = 0
    while at < len(data):
        offset, timestamp = _PLACE.unpack_from(data, at)
        key, at = _read_sized(data, at + _PLACE.size)
        value, at = _read_sized(data, at)
        (count,) = _SIZE.unpack_from(data, at)
        at += _SIZE.size
        headers = []
        for _ in range(count):
            name, at = _read_sized(data, at)
            content, at = _read_sized(data, at)
            assert name is not None
            headers.append((name, content))
        body = record_codec.encode_record_body(RecordFields(key, value, tuple(headers)))
        yield BatchRecord(offset, timestamp, body)


def _read_sized(data: bytes, at: int) -> tuple[bytes | None, int]:
    (size,) = _SIZE.unpack_from(data, at)
    at += _SIZE.size
    return (None, at) if size < 0 else (data[at : at + size], at + size)
