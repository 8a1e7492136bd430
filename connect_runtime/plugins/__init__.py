"""The plugins that come with the worker, and how all plugins are found.

Converters (`JsonConverter`, `StringConverter`, numbers, bytes), `SimpleHeaderConverter`, and
the FileStream connectors produce the same bytes and texts as those of Apache Kafka.
`plugin_discovery` finds these, entry points of installed packages, and modules in the
folders of `plugin.path`; `plugin_aliases` maps the names that users write, Java's class names
among them, to classes. The worker uses the port `PluginRegistry`.

May import `connect_runtime.api`, `base` and `system`.
"""
