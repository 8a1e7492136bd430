// Consumer groups, and where they go on.

import { $, element, list, table, text } from "./elements.js";
import { UNKNOWN, count, counted, moment } from "./words.js";

const GROUP_COLUMNS = [
  ["Topic", "", (each) => [`${each.topic ?? each.mirror}-${each.partition}`, element("span", { class: "small" }, `goes on in ${each.mirror}-${each.partition}`)]],
  ["Has read to", "num", (each) => count(each.source_offset)],
  ["Goes on at", "num", (each) => count(each.mirror_offset)],
  ["Unread", "num", (each) => count(each.unread_records)],
];
// `flow` is theirs, as the overview has it.
export function drawGroups(found, flow) {
  const shown = found.groups.length;
  const held = found.held ? `Checkpoints are ${found.held}, by an operator: none are made until mm2 resume '${flow.flow}'. ` : "";
  let told = "No task of this process makes checkpoints of this flow: no group was found yet, they are off, or another node makes them. mm2 offsets translate --group NAME asks the clusters.";
  if (found.tasks_here) {
    const asOf = found.round_ms === null ? "the first round of checkpoints is under way" : `checkpoints as of ${moment(found.round_ms)}`;
    const more = found.groups_found > shown ? `; the first ${shown} of ${count(found.groups_found)} are shown: narrow it with the name` : "";
    told = `${counted(found.group_count, "group")} here, ${asOf}${more}. Offsets are those that a group has read to on ${flow.source}, and where it would go on on ${flow.target}.`;
  }
  text($("groups-note"), held + told);
  list($("groups"), found.groups, (each) => each.group, () => element("li", {}, element("details", {}, element("summary"), element("table", {}, element("caption", { class: "hidden" }, "Positions")))), (on, each) => {
    const unread = each.unread_records === null ? UNKNOWN : `${each.unread_known ? "" : "at least "}${count(each.unread_records)}`;
    on.querySelector("summary").replaceChildren(element("b", {}, each.group), element("span", { class: "small" }, `${counted(each.partition_count, "partition")}, unread: ${unread}`));
    table(on.querySelector("table"), GROUP_COLUMNS, each.partitions, (one) => `${one.mirror} ${one.partition}`);
  });
}
