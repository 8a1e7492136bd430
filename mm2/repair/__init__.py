"""Offset commands: `mm2 offsets` (translate), `mm2 offsets rebuild` and `mm2 offsets skip`.

- `offset_map_rebuild` rebuilds lost parts of a flow's offset map by comparing the source log with
  the target log.
- `offset_map_record_skip` replaces one unreadable record of the offset map.

May import everything up to `mm2.clusters`; must not import `mm2.preflight` or `mm2.status`.
"""
