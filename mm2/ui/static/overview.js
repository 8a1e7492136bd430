// All flows in short, and halted partitions.

import { $, chip, command, element, list, show, table, text } from "./elements.js";
import { drawTopology } from "./topology.js";
import { UNKNOWN, count, counted, lagRecords, lagTime, moment, size } from "./units.js";

const FLOW_COLUMNS = [
  ["Flow", "", (each) => element("a", { href: `#${encodeURIComponent(each.flow)}` }, each.flow)],
  ["State", "", (each) => [chip(each.badge, each.state_text), flowNote(each)]],
  ["Lag, records", "num", (each) => markLocal(each, lagRecords(each))],
  ["Lag, time", "num", (each) => markLocal(each, lagTime(each))],
  ["Records/s", "num", (each) => markLocal(each, count(each.records_s))],
  ["Bytes/s", "num", (each) => markLocal(each, size(each.bytes_s))],
  ["Partitions", "side", (each) => partitions(each)],
];
function markLocal(each, words) {
  return each.partitions_on_other_nodes && words !== UNKNOWN ? `${words} here` : words;
}
function flowNote(each) {
  const told = [];
  if (each.slots_missing) told.push(`needs ${counted(each.slots_missing, "more Spark slot")}`);
  if (each.warning_count) told.push(counted(each.warning_count, "warning"));
  if (each.data_loss) told.push(each.data_loss);
  return told.length ? element("span", { class: "small" }, told.join(", ")) : null;
}
function partitions(each) {
  const here = `${count(each.partition_count)} in ${counted(each.topic_count, "topic")}`;
  return each.partitions_on_other_nodes ? `${here}, ${count(each.partitions_on_other_nodes)} on other nodes` : here;
}

// `current` is the name of the flow whose details are shown.
export function drawOverview(found, current) {
  const node = found.node;
  text($("node"), `${node.release} · ${node.host}, process ${node.pid} · ${node.file} · since ${moment(node.started_ms)} · ${node.engine} ${node.engine_ready ? "ready" : "not ready"}`);
  show($("no-flows"), found.flows.length === 0);
  table($("flows"), FLOW_COLUMNS, found.flows, (each) => each.flow, current);
  drawTopology(found, current);
  show($("halts-section"), found.halts.length > 0);
  list($("halts"), found.halts, (each) => `${each.flow} ${each.topic} ${each.partitions[0]}`, () => element("li"), drawHalt);
  show($("halts-more"), found.halts_hidden > 0);
  text($("halts-more"), `… and ${found.halts_hidden} more; mm2 status lists them`);
}
function drawHalt(on, each) {
  const more = each.partition_count - each.partitions.length;
  const names = each.partitions.map((number) => `${each.topic}-${number}`).join(", ") + (more > 0 ? ` and ${more} more` : "");
  const since = each.since_ms === null ? "" : `, since ${moment(each.since_ms)}`;
  on.replaceChildren(
    chip("bad", each.state), " ", element("b", {}, names), " ",
    element("span", { class: "small" }, `${each.flow}${since}`),
    element("div", {}, each.reason),
    command(each.command) || "",
  );
}
