"""Configuration: reads `clusters.yaml` and `mm2.properties`, derives connector configurations.

`config_loader.load` reads either file and returns a frozen `Mm2Settings`, or raises
`SettingsError` with every problem and its line. Both forms are reduced to MirrorMaker 2's flat
properties (`FlatProperties`); `dedicated_mode` derives each flow's worker and connectors from
them, as Java's `MirrorMakerConfig` does. The connectors parse their configuration with
`mirror_connector_config` (`MirrorSourceConfig`, `MirrorCheckpointConfig`,
`MirrorHeartbeatConfig`).

To add a key: `keys` (type, default, validator), `flow_keys` or a section module (its form in
`clusters.yaml`), `key_help` (its sentence in the reference), `mirror_connector_config` (parsing).

No I/O, except in `config_loader`, `clusters_section` (certificate files) and `flow_plan` (plugin
discovery). May import topics, replication, and connect_runtime's configuration packages.
"""
