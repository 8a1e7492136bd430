"""The plugins shipped with the worker, and the discovery of all plugins.

Converters (`JsonConverter`, `StringConverter`, numbers, bytes), `SimpleHeaderConverter`, and
the FileStream connectors produce the same bytes and texts as those of Apache Kafka.
`plugin_discovery` finds these, entry points of installed packages, and modules in the folders of
`plugin.path`. `plugin_aliases` maps names in configurations, including Java's class names, to
classes. The worker uses the protocol `PluginRegistry`.

May import `connect_runtime.api`, `base` and `system`.
"""
