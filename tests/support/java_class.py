"""A Java class written byte by byte, for brokers that need a plugin of ours and no compiler.

Layout: The Java Virtual Machine Specification, chapter 4. Version 49 (Java 5) has no stack maps.
"""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

NAME = "mm2tests/RefusingPolicy"
MODULE = "mm2tests"
_POLICY = "org/apache/kafka/server/policy/CreateTopicPolicy"
_METADATA = f"{_POLICY}$RequestMetadata"
_VIOLATION = "org/apache/kafka/common/errors/PolicyViolationException"
_PUBLIC = 1
_SUPER = 0x20


class _Pool:
    """The constant pool; each `…` returns an index."""

    def __init__(self) -> None:
        self.entries: list[bytes] = []

    def _add(self, entry: bytes) -> int:
        if entry not in self.entries:
            self.entries.append(entry)
        return self.entries.index(entry) + 1

    def text(self, value: str) -> int:
        data = value.encode()
        return self._add(struct.pack(">BH", 1, len(data)) + data)

    def class_(self, name: str) -> int:
        return self._add(struct.pack(">BH", 7, self.text(name)))

    def string(self, value: str) -> int:
        return self._add(struct.pack(">BH", 8, self.text(value)))

    def method(self, owner: str, name: str, descriptor: str) -> int:
        pair = self._add(struct.pack(">BHH", 12, self.text(name), self.text(descriptor)))
        return self._add(struct.pack(">BHH", 10, self.class_(owner), pair))


def refusing_policy(word: str, message: str) -> bytes:
    """A `CreateTopicPolicy` that refuses topics with `word` in their name, saying `message`."""
    pool = _Pool()
    make = struct.pack(
        ">BBHB", 0x2A, 0xB7, pool.method("java/lang/Object", "<init>", "()V"), 0xB1
    )  # aload_0, invokespecial, return
    topic = pool.method(_METADATA, "topic", "()Ljava/lang/String;")
    contains = pool.method("java/lang/String", "contains", "(Ljava/lang/CharSequence;)Z")
    refuse = pool.method(_VIOLATION, "<init>", "(Ljava/lang/String;)V")
    throw = struct.pack(
        ">BHBBHBHB",
        *(0xBB, pool.class_(_VIOLATION), 0x59, 0x13, pool.string(message), 0xB7, refuse, 0xBF),
    )  # new, dup, ldc_w, invokespecial, athrow
    validate = struct.pack(
        ">BBHBHBHBH",
        *(0x2B, 0xB6, topic, 0x13, pool.string(word), 0xB6, contains, 0x99, 3 + len(throw)),
    )  # aload_1, topic(), ldc_w, contains(), ifeq over the throw
    methods = [
        _method(pool, "<init>", "()V", make),
        _method(pool, "configure", "(Ljava/util/Map;)V", b"\xb1"),
        _method(pool, "close", "()V", b"\xb1"),
        _method(pool, "validate", f"(L{_METADATA};)V", validate + throw + b"\xb1"),
    ]
    shape = struct.pack(
        ">HHHHHHH",
        *(_PUBLIC | _SUPER, pool.class_(NAME), pool.class_("java/lang/Object")),
        *(1, pool.class_(_POLICY), 0, len(methods)),
    )
    head = struct.pack(">IHHH", 0xCAFEBABE, 0, 49, len(pool.entries) + 1)
    return head + b"".join(pool.entries) + shape + b"".join(methods) + struct.pack(">H", 0)


def _method(pool: _Pool, name: str, descriptor: str, code: bytes) -> bytes:
    stack, local_variables = 4, 2
    body = struct.pack(">HHI", stack, local_variables, len(code)) + code + struct.pack(">HH", 0, 0)
    attribute = struct.pack(">HI", pool.text("Code"), len(body)) + body
    return struct.pack(">HHHH", _PUBLIC, pool.text(name), pool.text(descriptor), 1) + attribute


def policy_flags(folder: Path, word: str, message: str) -> tuple[str, ...]:
    """JVM flags that put the policy beside the class path, as a module of its own."""
    jar = folder / f"{MODULE}.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr(f"{NAME}.class", refusing_policy(word, message))
    return ("--module-path", str(jar), "--add-modules", MODULE)
