"""Contains the plugins shipped with the worker, and discovers all installed plugins.

Converters (`JsonConverter`, `StringConverter`, numbers, bytes), `SimpleHeaderConverter`, and the
FileStream connectors produce the same output as those of Apache Kafka. `plugin_discovery` finds
these shipped plugins, entry points of installed packages, and modules in the directories of
`plugin.path`. `plugin_aliases` maps names in configurations, including Java class names, to
classes. The worker looks up plugin classes through the protocol `PluginRegistry`.

May import `connect_runtime.api`, `base` and `system`.
"""
