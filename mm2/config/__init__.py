"""Configuration: reads `clusters.yaml` and `mm2.properties`, derives connector configurations.

`config_loader.load_config_file` reads either file and returns a frozen `Mm2Settings`, or raises
`SettingsError` with every problem and its line. Both forms are reduced to MirrorMaker 2's flat
properties (`FlatProperties`); `dedicated_mode` derives each flow's worker and connectors from them,
as Java's `MirrorMakerConfig` does. The connectors parse their configuration with
`mirror_connector_config` (`MirrorSourceConfig`, `MirrorCheckpointConfig`, `MirrorHeartbeatConfig`).

To add a flow key, declare it in `mm2_only_keys`. Keys of MirrorMaker 2 are declared in
`mirror_connector_config_keys` (as in Java), with their form in `clusters.yaml` in
`flow_config_keys` and their help in `config_key_descriptions`. Each other section of the file has
its own module.

No I/O, except in `config_loader`, `clusters_section` (certificate files) and
`flow_connector_configs` (plugin discovery). May import topics, replication, and connect_runtime's
configuration packages.
"""
