"""Configuration of Connect workers and connectors: definitions, parsing and validation.

`WorkerConfig` (`DistributedConfig`, `StandaloneConfig`) is a worker's parsed configuration, and
`ConnectorConfig` is a connector's. `ErrorCollector` collects all problems of a properties file and
raises one `SettingsError`. `ConfigTransformer` replaces `${provider:path:key}`. The file formats,
Java properties and YAML, are parsed here too; mm2 uses the parsers for its own files.

May import base, system, api and storage. Must not import the herder, the worker or REST.
"""
