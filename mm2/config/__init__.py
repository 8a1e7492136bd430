"""Configuration: `clusters.yaml`, `mm2.properties` and the keys of the three connectors.

`config_loader.load` reads either file and returns a frozen `Mm2Settings`, or raises
`SettingsError` with every problem and its line. Both forms are reduced to MirrorMaker 2's flat
properties (`FlatProperties`); `dedicated_mode` derives each flow's worker and connectors from
them, as Java's `MirrorMakerConfig` does. The connectors parse what they are given with
`mirror_connector_config` (`MirrorSourceConfig`, `MirrorCheckpointConfig`,
`MirrorHeartbeatConfig`).

Where to add a key: `keys` (type, default, validator), `flow_keys` or a section file (how
`clusters.yaml` spells it), `key_help` (its sentence in the reference),
`mirror_connector_config` (what it means).

Pure, except for `config_loader`, `clusters_section` (certificate files) and `flow_plan` (plugin
discovery). May import topics, replication, and connect_runtime's configuration packages.
"""
