"""Java class names in configurations, and what stands for them in Python.

Python has none of these classes, but validation must tell their names from wrong ones and
print them as Java does. Each becomes a type that is only its name. Any other name is a Python
class: an operator's file or a plugin must have imported it before a connector's configuration
may name it.
"""

from __future__ import annotations

import functools
import re

from connect_runtime.api import config_types

KAFKA_VERSION = "4.3.1"
"""Of the connectors that ours stand in for: what they report as their own."""
MIRROR_PACKAGE = "org.apache.kafka.connect.mirror."
DEFAULT_POLICY = f"{MIRROR_PACKAGE}DefaultReplicationPolicy"
IDENTITY_POLICY = f"{MIRROR_PACKAGE}IdentityReplicationPolicy"
TOPIC_FILTER = f"{MIRROR_PACKAGE}DefaultTopicFilter"
GROUP_FILTER = f"{MIRROR_PACKAGE}DefaultGroupFilter"
PROPERTY_FILTER = f"{MIRROR_PACKAGE}DefaultConfigPropertyFilter"
FORWARDING_ADMIN = "org.apache.kafka.clients.admin.ForwardingAdmin"
JMX_REPORTER = "org.apache.kafka.common.metrics.JmxReporter"

_APACHE_PACKAGE = "org.apache.kafka."
_WORD = re.compile(r"\w+")
_MIRROR_CLASS_NAMES = {
    each.removeprefix(MIRROR_PACKAGE)
    for each in (DEFAULT_POLICY, IDENTITY_POLICY, TOPIC_FILTER, GROUP_FILTER, PROPERTY_FILTER)
}


class JavaClass:
    """Base of the types that only stand for a class of Apache Kafka; never made an instance of."""


def resolve_class(name: str) -> type:
    """The type for a value of CLASS type in a connector's configuration; imports nothing.

    Raises `LookupError` if there is none. Of Kafka's own only the mirror's are told from misspelt
    ones: the others are the clients'.
    """
    return _resolve_java_class(name) or config_types.find_imported_class(name)


def import_class(name: str) -> type:
    """As `resolve_class`, for names in an operator's own file: a module of the user's is imported."""
    found = _resolve_java_class(name)
    if found is not None:
        return found
    try:
        return config_types.load_class(name)
    except LookupError as error:
        cause = error.__cause__
        if cause is None or str(cause) in str(error):
            raise
        raise LookupError(f"{error}: {cause}") from error


def _resolve_java_class(name: str) -> type | None:
    """None for a class of Python. Raises `LookupError` for a class that MM2 does not have."""
    if name.startswith(MIRROR_PACKAGE):
        if name.removeprefix(MIRROR_PACKAGE) not in _MIRROR_CLASS_NAMES:
            raise LookupError(name)
        return get_java_class(name)
    return get_java_class(name) if name.startswith(_APACHE_PACKAGE) else None


def is_python_class_name(name: str) -> bool:
    """Could this be the name of a class of the user's?"""
    words = name.replace(":", ".", 1).split(".")
    is_dotted = len(words) > 1 and all(_WORD.fullmatch(each) for each in words)
    return is_dotted and not name.startswith(_APACHE_PACKAGE)


@functools.cache
def get_java_class(name: str) -> type[JavaClass]:
    """The type that stands for a class of Java; the same one each time."""
    package, _, simple = name.rpartition(".")
    return type(simple, (JavaClass,), {"__module__": package, "__qualname__": simple})


def get_java_name(of: type) -> str | None:
    """The name in Java; None for a class of Python."""
    return config_types.get_class_name(of) if issubclass(of, JavaClass) else None
