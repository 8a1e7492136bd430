// Consumer groups with their checkpoints.

import { $, element, list, table, text } from "./elements.js";
import { UNKNOWN, count, counted, moment } from "./units.js";

const GROUP_COLUMNS = [
  ["Topic", "", (each) => [`${each.topic ?? each.mirror}-${each.partition}`, element("span", { class: "small" }, `mirror ${each.mirror}-${each.partition}`)]],
  ["Source offset", "num", (each) => count(each.source_offset)],
  ["Mirror offset", "num", (each) => count(each.mirror_offset)],
  ["Unread", "num", (each) => count(each.unread_records)],
];
// `flow` is the flow's entry in the overview.
export function drawGroups(found, flow) {
  const shown = found.groups.length;
  const override = found.checkpoints_override ? `Checkpoints are ${found.checkpoints_override} by an operator; resume them with: mm2 resume '${flow.flow}'. ` : "";
  let note = "No task of this process writes checkpoints of this flow: no consumer group matches, checkpoints are disabled, or another node writes them. To query the clusters, run: mm2 offsets translate --group NAME";
  if (found.local_tasks) {
    const asOf = found.checkpoints_ms === null ? "the first checkpoints are being written" : `checkpoints as of ${moment(found.checkpoints_ms)}`;
    const more = found.groups_found > shown ? `; showing the first ${shown} of ${count(found.groups_found)}: use the name filter` : "";
    note = `${counted(found.group_count, "group")} here, ${asOf}${more}. Source offset: committed offset on ${flow.source}. Mirror offset: where the group would resume on ${flow.target}.`;
  }
  text($("groups-note"), override + note);
  list($("groups"), found.groups, (each) => each.group, () => element("li", {}, element("details", {}, element("summary"), element("table", {}, element("caption", { class: "hidden" }, "Positions")))), (on, each) => {
    const unread = each.unread_records === null ? UNKNOWN : `${each.unread_known ? "" : "at least "}${count(each.unread_records)}`;
    on.querySelector("summary").replaceChildren(element("b", {}, each.group), element("span", { class: "small" }, `${counted(each.partition_count, "partition")}, unread: ${unread}`));
    table(on.querySelector("table"), GROUP_COLUMNS, each.partitions, (one) => `${one.mirror} ${one.partition}`);
  });
}
