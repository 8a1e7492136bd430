"""What class names mean in configurations that were written for Java.

Python has none of those classes, yet validation must know their names from wrong ones, and show
them as Java does. So each becomes a type that is nothing but its name; `policies` and whoever makes
clients say what stands for it here. Any other name is a Python class: one that the operator's file
names, or a plugin, has imported it before a connector's configuration may name it.
"""

from __future__ import annotations

import functools
import re

from connect_runtime.api import config_types

VERSION = "4.3.1"
"""Of the connectors that ours stand in for: what they report as their own."""
MIRROR = "org.apache.kafka.connect.mirror."
DEFAULT_POLICY = f"{MIRROR}DefaultReplicationPolicy"
IDENTITY_POLICY = f"{MIRROR}IdentityReplicationPolicy"
TOPIC_FILTER = f"{MIRROR}DefaultTopicFilter"
GROUP_FILTER = f"{MIRROR}DefaultGroupFilter"
PROPERTY_FILTER = f"{MIRROR}DefaultConfigPropertyFilter"
FORWARDING_ADMIN = "org.apache.kafka.clients.admin.ForwardingAdmin"
JMX_REPORTER = "org.apache.kafka.common.metrics.JmxReporter"

_APACHE = "org.apache.kafka."
_WORD = re.compile(r"\w+")
_OF_MIRROR = {
    each.removeprefix(MIRROR)
    for each in (DEFAULT_POLICY, IDENTITY_POLICY, TOPIC_FILTER, GROUP_FILTER, PROPERTY_FILTER)
}


class JavaClass:
    """Base of the types that only stand for a class of Apache Kafka; never made an instance of."""


def load(name: str) -> type:
    """The type for a value of CLASS type in a connector's configuration; imports nothing.

    Raises `LookupError` if there is none. Of Kafka's own only the mirror's are told from misspelt
    ones: the others are the clients'.
    """
    return _of_java(name) or config_types.imported_class(name)


def load_and_import(name: str) -> type:
    """As `load`, for names in an operator's own file: a module of the user's is imported."""
    found = _of_java(name)
    if found is not None:
        return found
    try:
        return config_types.load_class(name)
    except LookupError as error:
        cause = error.__cause__
        if cause is None or str(cause) in str(error):
            raise
        raise LookupError(f"{error}: {cause}") from error


def _of_java(name: str) -> type | None:
    """None for a class of Python. Raises `LookupError` for a class that MM2 does not have."""
    if name.startswith(MIRROR):
        if name.removeprefix(MIRROR) not in _OF_MIRROR:
            raise LookupError(name)
        return named(name)
    return named(name) if name.startswith(_APACHE) else None


def is_python(name: str) -> bool:
    """Could this be the name of a class of the user's?"""
    words = name.replace(":", ".", 1).split(".")
    is_dotted = len(words) > 1 and all(_WORD.fullmatch(each) for each in words)
    return is_dotted and not name.startswith(_APACHE)


@functools.cache
def named(name: str) -> type[JavaClass]:
    """The type that stands for a class of Java; the same one each time."""
    package, _, simple = name.rpartition(".")
    return type(simple, (JavaClass,), {"__module__": package, "__qualname__": simple})


def java_name(of: type) -> str | None:
    """The name in Java; None for a class of Python."""
    return config_types.class_name(of) if issubclass(of, JavaClass) else None
