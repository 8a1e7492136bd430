"""Configuration of Connect workers and connectors: definitions, parsing and validation.

`WorkerConfig` (`DistributedConfig`, `StandaloneConfig`) is a worker's parsed configuration,
`ConnectorConfig` a connector's. `ErrorCollector` gathers everything that is wrong with a
properties file and raises one `SettingsError`; `ConfigTransformer` replaces
`${provider:path:key}`. The formats that files are written in, Java properties and YAML, are here
too; mm2 uses them for its own files.

May import base, system, api and storage. Must not import the herder, the worker or REST.
"""
