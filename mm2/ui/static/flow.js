// One flow: its topics, tasks, and what there is to know of it.

import { drawCharts } from "./charts.js";
import { $, chip, command, element, list, show, sign, table, text } from "./elements.js";
import { UNKNOWN, count, counted, lagRecords, lagTime, moment, size, states } from "./words.js";

const TOPIC_COLUMNS = [
  ["Topic", "", (each) => [each.topic, element("span", { class: "small" }, `as ${each.mirror}`)]],
  ["State", "", (each) => [chip(each.tone, Object.keys(each.states).length === 1 ? Object.keys(each.states)[0] || UNKNOWN : states(each.states)), topicNote(each)]],
  ["Partitions", "num", (each) => count(each.partition_count)],
  ["Lag, records", "num", lagRecords],
  ["Lag, time", "num", lagTime],
  ["Records/s", "num", (each) => count(each.records_s)],
  ["Bytes/s", "num", (each) => size(each.bytes_s)],
];
function topicNote(each) {
  const told = [each.reason, each.loss, each.throttle_bytes_s ? `throttled to ${size(each.throttle_bytes_s)}/s` : ""].filter(Boolean);
  return told.length ? element("span", { class: "small" }, told.join("; ")) : null;
}
const TASK_COLUMNS = [
  ["Task", "", (each) => `task ${each.number}`],
  ["State", "", (each) => [chip(each.tone, (each.state || UNKNOWN).toLowerCase().replaceAll("_", " ")), each.reason ? element("span", { class: "small" }, each.reason) : null]],
  ["Node", "", (each) => each.node || UNKNOWN],
  ["Restarts", "num", (each) => count(each.restarts)],
];

export function drawDetail(found) {
  show($("detail"), true);
  text($("detail-head"), found.flow);
  show($("reason"), found.reason !== "");
  text($("reason"), found.reason);
  drawCharts(found.timeline, found.at_ms);
  drawVerdict(found.estimate);
  drawKnow(found);
  table($("topics"), TOPIC_COLUMNS, found.topics, (each) => each.topic);
  const hidden = found.topics_found - found.topics.length;
  text($("topics-more"), hidden > 0 ? `… and ${count(hidden)} more: narrow it with the name` : found.topics_found ? "" : "No topic is copied here that has this in its name.");
  table($("tasks"), TASK_COLUMNS, found.tasks, (each) => String(each.number));
}
function drawKnow(found) {
  const lines = [];
  if (found.loss) lines.push({ tone: "bad", text: found.loss });
  if (found.holds.paused) lines.push({ tone: "wait", text: `the flow is paused; mm2 resume '${found.flow}' lets it go on` });
  for (const each of found.reasons) lines.push({ tone: found.tone, text: each });
  for (const each of found.warnings) lines.push({ tone: "wait", text: each });
  if (found.elsewhere) lines.push({ tone: "off", text: `${counted(found.elsewhere, "partition")} ${found.elsewhere === 1 ? "is" : "are"} copied by other nodes (${found.nodes.join(", ")}), whose pages show more` });
  for (const each of found.troubles) lines.push({ tone: "off", text: `${each.at_ms === null ? "" : `${moment(each.at_ms)}: `}${each.text}${each.resolved_ms === null ? "" : ` (resolved ${moment(each.resolved_ms)})`}` });
  if (!lines.length) lines.push({ tone: "off", text: "nothing was noted since the start" });
  list($("know"), lines, (each) => each.text, () => element("li"), (on, each) => on.replaceChildren(element("span", { class: `tone-${each.tone}` }, sign(each.tone)), " ", each.text));
}
function drawVerdict(estimate) {
  const on = $("verdict"), told = JSON.stringify(estimate);
  if (on.told === told) return;
  on.told = told;
  on.replaceChildren(
    element("p", { class: "verdict" }, chip(estimate.tone, estimate.verdict), element("span", { class: "small" }, "from what this process knows by itself, as of now; no plan")),
    element("ul", { class: "plain lines" }, ...estimate.findings.map((each) => element("li", {}, each))),
  );
  $("plan-command").replaceChildren(command(estimate.command));
}
