"""Placeholder types for the Java classes that configurations name.

The Java classes do not exist in Python, but validation must accept their names and print them as
Java does. Therefore each class is represented by an empty type with the same name. All other names
refer to Python classes. A connector's configuration can name a Python class only if the class's
module was already imported: the operator's file names the class, or a plugin uses the module.
"""

from __future__ import annotations

import functools
import re

from connect_runtime.api import config_types

KAFKA_VERSION = "4.3.1"
"""Kafka version that the connectors report as their version."""
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


class JavaClassPlaceholder:
    """Base class of the placeholder types for Java classes. It is never instantiated."""


def resolve_class(name: str) -> type:
    """Resolve a class name of a connector's configuration to a type, without importing modules.

    Raises `LookupError` if the class is unknown. Names of Apache Kafka classes outside the mirror
    package are accepted without a check.
    """
    return _resolve_java_class(name) or config_types.find_imported_class(name)


def import_class(name: str) -> type:
    """Resolve a class name as `resolve_class` does, but import the module of a Python class. Pass
    only class names from the configuration file, which the operator controls."""
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
    """Return the placeholder type of a Java class, or None for a Python class.

    Raises `LookupError` for an unknown class of the mirror package.
    """
    if name.startswith(MIRROR_PACKAGE):
        if name.removeprefix(MIRROR_PACKAGE) not in _MIRROR_CLASS_NAMES:
            raise LookupError(name)
        return get_java_class(name)
    return get_java_class(name) if is_kafka_class_name(name) else None


def is_kafka_class_name(name: str) -> bool:
    """Return True if the name has the form of a Java class of Apache Kafka, for which no module is
    imported."""
    return name.startswith(_APACHE_PACKAGE)


def is_python_class_name(name: str) -> bool:
    """Return True if the name has the form of a Python class, `package.module:Class` or
    `package.module.Class`."""
    words = name.replace(":", ".", 1).split(".")
    is_dotted = len(words) > 1 and all(_WORD.fullmatch(each) for each in words)
    return is_dotted and not is_kafka_class_name(name)


@functools.cache
def get_java_class(name: str) -> type[JavaClassPlaceholder]:
    """Return the placeholder type of a Java class. Types are cached so that they can be
    compared."""
    package, _, simple = name.rpartition(".")
    return type(simple, (JavaClassPlaceholder,), {"__module__": package, "__qualname__": simple})


def get_java_class_name(type_: type) -> str | None:
    """Return the Java class name of a placeholder type, or None for a Python class."""
    return config_types.get_class_name(type_) if issubclass(type_, JavaClassPlaceholder) else None
