// All flows in short, and what stands still.

import { $, chip, command, element, list, show, table, text } from "./elements.js";
import { drawTopology } from "./topology.js";
import { UNKNOWN, count, counted, lagRecords, lagTime, moment, size } from "./words.js";

const FLOW_COLUMNS = [
  ["Flow", "", (each) => element("a", { href: `#${encodeURIComponent(each.flow)}` }, each.flow)],
  ["State", "", (each) => [chip(each.tone, each.state_words), flowNote(each)]],
  ["Lag, records", "num", (each) => ofHere(each, lagRecords(each))],
  ["Lag, time", "num", (each) => ofHere(each, lagTime(each))],
  ["Records/s", "num", (each) => ofHere(each, count(each.records_s))],
  ["Bytes/s", "num", (each) => ofHere(each, size(each.bytes_s))],
  ["Partitions", "side", (each) => partitions(each)],
];
function ofHere(each, words) {
  return each.elsewhere && words !== UNKNOWN ? `${words} here` : words;
}
function flowNote(each) {
  const told = [];
  if (each.slots_missing) told.push(`needs ${counted(each.slots_missing, "more slot")}`);
  if (each.warning_count) told.push(counted(each.warning_count, "warning"));
  if (each.loss) told.push(each.loss);
  return told.length ? element("span", { class: "small" }, told.join(", ")) : null;
}
function partitions(each) {
  const here = `${count(each.partition_count)} in ${counted(each.topic_count, "topic")}`;
  return each.elsewhere ? `${here}, ${count(each.elsewhere)} on other nodes` : here;
}

// `current` is the flow that is shown below.
export function drawOverview(found, current) {
  const node = found.node;
  text($("node"), `${node.release} · ${node.host}, process ${node.pid} · ${node.file} · since ${moment(node.started_ms)} · ${node.engine} ${node.engine_ready ? "ready" : "not ready"}`);
  show($("no-flows"), found.flows.length === 0);
  table($("flows"), FLOW_COLUMNS, found.flows, (each) => each.flow, current);
  drawTopology(found, current);
  show($("standing-part"), found.standing.length > 0);
  list($("standing"), found.standing, (each) => `${each.flow} ${each.topic} ${each.partitions[0]}`, () => element("li"), drawStanding);
  show($("standing-more"), found.standing_hidden > 0);
  text($("standing-more"), `… and ${found.standing_hidden} more; mm2 status tells of them`);
}
function drawStanding(on, each) {
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
