"""Format of `offset.storage.file.filename`: a `HashMap<byte[], byte[]>` in Java serialization.

Compatible with Java's FileOffsetBackingStore in both directions, so a Python and a Java standalone
worker can replace each other. Only this structure is accepted, because a serialized stream can name
any class. Layout: Java Object Serialization Specification, chapter 6; big-endian throughout.

```
AC ED 00 05                                        magic, version
73 72 0011 "java.util.HashMap" <serialVersionUID> 03 0002
      'F' 000A "loadFactor"  'I' 0009 "threshold" 78 70     class, no serializable superclass
float load factor, int threshold
77 08 int buckets, int entries                     what HashMap.writeObject adds
key, value, ... each an array of bytes, or null
78
```
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from connect_runtime.base.errors import FatalError

_MAGIC = b"\xac\xed\x00\x05"
_NULL_TAG, _REFERENCE_TAG, _OBJECT_TAG, _ARRAY_TAG = 0x70, 0x71, 0x73, 0x75
_BLOCK_TAG, _END_TAG = 0x77, 0x78
_FIRST_HANDLE = 0x7E0000

_MAP_CLASS = (
    b"\x72\x00\x11java.util.HashMap\x05\x07\xda\xc1\xc3\x16\x60\xd1\x03\x00\x02"
    b"F\x00\x0aloadFactorI\x00\x09threshold\x78\x70"
)
_BYTES_CLASS = b"\x72\x00\x02[B\xac\xf3\x17\xf8\x06\x08\x54\xe0\x02\x00\x00\x78\x70"
_BYTES_CLASS_HANDLE = _FIRST_HANDLE + 2  # the HashMap class and the map have the first two handles
_HASH_MAP_CAPACITY = 16
_HASH_MAP_LOAD_FACTOR = 0.75


class MalformedOffsetFile(FatalError):
    """Raised if the content of an offset file is not a serialized HashMap of source offsets. The
    message contains the position in the file."""


def encode_offsets(offsets: Mapping[bytes, bytes]) -> bytes:
    """Encode offsets as the content of an offset file, in the order of the mapping (Java's order is
    arbitrary)."""
    capacity, threshold = _HASH_MAP_CAPACITY, 0
    if offsets:
        while len(offsets) > _HASH_MAP_LOAD_FACTOR * capacity:
            capacity *= 2
        threshold = int(_HASH_MAP_LOAD_FACTOR * capacity)
    parts = [
        _MAGIC,
        bytes([_OBJECT_TAG]),
        _MAP_CLASS,
        struct.pack(">fi", _HASH_MAP_LOAD_FACTOR, threshold),
        bytes([_BLOCK_TAG, 8]),
        struct.pack(">ii", capacity, len(offsets)),
    ]
    known = False
    for pair in offsets.items():
        for each in pair:
            reference = struct.pack(">BI", _REFERENCE_TAG, _BYTES_CLASS_HANDLE)
            parts += [bytes([_ARRAY_TAG]), reference if known else _BYTES_CLASS]
            parts += [struct.pack(">i", len(each)), each]
            known = True
    parts.append(bytes([_END_TAG]))
    return b"".join(parts)


def decode_offsets(data: bytes) -> dict[bytes, bytes]:
    """Decode the content of an offset file; an empty file contains no offsets. Entries with a null
    key or value are ignored.

    Raises `MalformedOffsetFile`, also for a truncated file. Java treats a truncated file as empty,
    so every source connector would start over.
    """
    if not data:
        return {}
    reader = _SerializationReader(data)
    reader.expect_bytes(_MAGIC, "the start of a Java object stream")
    reader.expect_bytes(bytes([_OBJECT_TAG]) + _MAP_CLASS, "a java.util.HashMap")
    reader.handles += [None, None]  # handles of the HashMap class and the map
    reader.read_bytes(8, "load factor and threshold")
    reader.expect_bytes(bytes([_BLOCK_TAG, 8]), "the size of the map")
    reader.read_bytes(4, "the number of buckets")
    entries = reader.read_integer("the number of entries")
    if entries < 0:
        raise reader.create_error(f"a map of {entries} entries")
    offsets: dict[bytes, bytes] = {}
    for _ in range(entries):
        key, value = reader.read_array(), reader.read_array()
        if key is not None and value is not None:
            offsets[key] = value
    reader.expect_bytes(bytes([_END_TAG]), "the end of the map")
    return offsets


@dataclass(slots=True)
class _SerializationReader:
    data: bytes
    at: int = 0
    handles: list[bytes | None] = field(default_factory=list)
    """Objects in the order in which they appear in the file. The file refers to an earlier object
    by its number. None for objects that are not arrays."""
    bytes_class: int | None = None
    """Handle (reference number) of the class descriptor of byte[]; None before it is read."""

    def create_error(self, what: str) -> MalformedOffsetFile:
        return MalformedOffsetFile(f"malformed offset file: byte {self.at}: {what}")

    def read_bytes(self, length: int, what: str) -> bytes:
        taken = self.data[self.at : self.at + length]
        if len(taken) < length:
            raise self.create_error(f"the file ends within {what}")
        self.at += length
        return taken

    def expect_bytes(self, wanted: bytes, what: str) -> None:
        if not self.data.startswith(wanted, self.at):
            raise self.create_error(f"expected {what}")
        self.at += len(wanted)

    def read_integer(self, what: str) -> int:
        value: int = struct.unpack(">i", self.read_bytes(4, what))[0]
        return value

    def read_array(self) -> bytes | None:
        tag = self.read_bytes(1, "an entry")[0]
        if tag == _NULL_TAG:
            return None
        if tag == _REFERENCE_TAG:
            return self._read_array_reference()
        if tag != _ARRAY_TAG:
            raise self.create_error(f"expected a byte array, not {tag:#04x}")
        self._read_array_class()
        self.handles.append(None)
        handle = len(self.handles) - 1
        length = self.read_integer("the length of an array")
        if length < 0:
            raise self.create_error(f"an array of length {length}")
        array = self.handles[handle] = self.read_bytes(length, "an array")
        return array

    def _read_array_class(self) -> None:
        if self.data.startswith(_BYTES_CLASS, self.at):
            self.at += len(_BYTES_CLASS)
            self.bytes_class = len(self.handles)
            self.handles.append(None)
            return
        self.expect_bytes(bytes([_REFERENCE_TAG]), "the class descriptor of byte[]")
        if self._read_handle() != self.bytes_class:
            raise self.create_error("an array whose type is not byte[]")

    def _read_handle(self) -> int:
        handle: int = struct.unpack(">I", self.read_bytes(4, "a reference"))[0]
        return handle - _FIRST_HANDLE

    def _read_array_reference(self) -> bytes:
        """Read a back reference, and return the byte array that it refers to."""
        handle = self._read_handle()
        array = self.handles[handle] if 0 <= handle < len(self.handles) else None
        if array is None:
            raise self.create_error("a reference to an object that is not a byte array")
        return array
