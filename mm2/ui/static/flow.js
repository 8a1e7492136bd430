// Details of one flow: charts, failover estimate, notes, topics and tasks.

import { drawCharts } from "./charts.js";
import { $, chip, command, element, list, show, sign, table, text } from "./elements.js";
import { UNKNOWN, count, counted, lagRecords, lagTime, moment, size, states } from "./units.js";

const TOPIC_COLUMNS = [
  ["Topic", "", (each) => [each.topic, element("span", { class: "small" }, `as ${each.mirror}`)]],
  ["State", "", (each) => [chip(each.badge, Object.keys(each.states).length === 1 ? Object.keys(each.states)[0] || UNKNOWN : states(each.states)), topicNote(each)]],
  ["Partitions", "num", (each) => count(each.partition_count)],
  ["Lag, records", "num", lagRecords],
  ["Lag, time", "num", lagTime],
  ["Records/s", "num", (each) => count(each.records_s)],
  ["Bytes/s", "num", (each) => size(each.bytes_s)],
];
function topicNote(each) {
  const told = [each.reason, each.data_loss, each.throttle_bytes_s ? `throttled to ${size(each.throttle_bytes_s)}/s` : ""].filter(Boolean);
  return told.length ? element("span", { class: "small" }, told.join("; ")) : null;
}
const TASK_COLUMNS = [
  ["Task", "", (each) => `task ${each.number}`],
  ["State", "", (each) => [chip(each.badge, (each.state || UNKNOWN).toLowerCase().replaceAll("_", " ")), each.reason ? element("span", { class: "small" }, each.reason) : null]],
  ["Node", "", (each) => each.node || UNKNOWN],
  ["Restarts", "num", (each) => count(each.restarts)],
];

export function drawDetail(found) {
  show($("detail"), true);
  text($("detail-head"), found.flow);
  show($("reason"), found.reason !== "");
  text($("reason"), found.reason);
  drawCharts(found.timeline, found.at_ms);
  drawEstimate(found.estimate);
  drawNotes(found);
  table($("topics"), TOPIC_COLUMNS, found.topics, (each) => each.topic);
  const hidden = found.topics_found - found.topics.length;
  text($("topics-more"), hidden > 0 ? `… and ${count(hidden)} more: use the name filter` : found.topics_found ? "" : "No replicated topic contains this text in its name.");
  table($("tasks"), TASK_COLUMNS, found.tasks, (each) => String(each.number));
}
function drawNotes(found) {
  const lines = [];
  if (found.data_loss) lines.push({ badge: "bad", text: found.data_loss });
  if (found.overrides.paused) lines.push({ badge: "wait", text: `the flow is paused; resume it with: mm2 resume '${found.flow}'` });
  for (const each of found.reasons) lines.push({ badge: found.badge, text: each });
  for (const each of found.warnings) lines.push({ badge: "wait", text: each });
  if (found.partitions_on_other_nodes) lines.push({ badge: "off", text: `${counted(found.partitions_on_other_nodes, "partition")} ${found.partitions_on_other_nodes === 1 ? "is" : "are"} replicated by other nodes (${found.nodes.join(", ")}); see their status pages` });
  for (const each of found.problems) lines.push({ badge: "off", text: `${each.at_ms === null ? "" : `${moment(each.at_ms)}: `}${each.text}${each.resolved_ms === null ? "" : ` (resolved ${moment(each.resolved_ms)})`}` });
  if (!lines.length) lines.push({ badge: "off", text: "no problems since mm2 was started" });
  list($("notes"), lines, (each) => each.text, () => element("li"), (on, each) => on.replaceChildren(element("span", { class: `severity-${each.badge}` }, sign(each.badge)), " ", each.text));
}
function drawEstimate(estimate) {
  const on = $("estimate"), told = JSON.stringify(estimate);
  if (on.drawnState === told) return;
  on.drawnState = told;
  on.replaceChildren(
    element("p", { class: "verdict" }, chip(estimate.badge, estimate.verdict), element("span", { class: "small" }, "current estimate by this process; a plan also checks both clusters")),
    element("ul", { class: "plain lines" }, ...estimate.findings.map((each) => element("li", {}, each))),
  );
  $("plan-command").replaceChildren(command(estimate.command));
}
