// Incidents, and the plan of a failover: what mm2's own commands say, as of when they were asked.

import { $, chip, element, sign, table, text } from "./elements.js";
import { UNKNOWN, count, counted, duration, moment } from "./words.js";

const PLAN_OLD_MS = 300000;
const FINDINGS_AT_ONCE = 5;

const INCIDENT_COLUMNS = [
  ["At", "", (each) => moment(each.at_ms)],
  ["Kind", "", (each) => each.kind],
  ["Topic", "", (each) => place(each)],
  ["Source offsets", "", (each) => range(each.source)],
  ["Mirror offsets", "", (each) => range(each.target)],
  ["Detail", "", (each) => each.detail],
];
// What operators did is about a topic, or about the whole flow.
function place(each) {
  return each.partition === null ? each.topic ?? "" : `${each.topic}-${each.partition}`;
}
function range(offsets) {
  return offsets ? `${count(offsets[0])} to ${count(offsets[1] - 1)}` : "";
}
function asOf(found) {
  const told = found.found_ms === null || found.found_ms === undefined ? "" : `as of ${moment(found.found_ms)}`;
  const trying = found.running ? "the clusters are being asked …" : "";
  const wrong = found.error ? `asked in vain: ${found.error}` : "";
  return [told, trying, wrong].filter(Boolean).join("; ");
}
export function drawIncidents(answer) {
  const found = answer.found;
  let told = "", rows = [];
  if (found) {
    rows = [...found.incidents, ...found.actions].sort((one, other) => other.at_ms - one.at_ms);
    const kinds = Object.entries(found.kinds).map(([kind, number]) => `${count(number)} ${kind}`).join(", ");
    const more = found.incident_count > found.incidents.length ? `; the newest ${found.incidents.length} are shown, mm2 incidents lists all` : "";
    told = found.incident_count ? `${counted(found.incident_count, "incident")} (${kinds})${more}; ` : "No incidents; ";
    if (found.actions.length) told += `${counted(found.actions.length, "recorded action")} of operators; `;
  }
  text($("incidents-note"), told + (asOf(answer) || UNKNOWN));
  table($("incidents"), INCIDENT_COLUMNS, rows, (each) => each.id);
}
// A plan is of its moment. One that is old, or of a flow that is no longer well, looks well no more.
function isPast(answer, flow) {
  return answer.at_ms - answer.found_ms > PLAN_OLD_MS || !["good", "wait"].includes(flow.tone);
}
// `flow` is the plan's, as the overview has it; `look` has another one made.
export function drawPlan(answer, flow, look) {
  const past = answer.found?.tone === "good" && isPast(answer, flow);
  const on = $("plan"), found = answer.found, told = JSON.stringify([answer.found, answer.found_ms, answer.error, answer.running, past]);
  if (on.told !== told) {
    on.told = told;
    const button = element("button", { type: "button", id: "look", disabled: answer.running }, answer.running ? "Both clusters are looked at …" : "Make the plan now");
    button.addEventListener("click", look);
    const focused = document.activeElement && document.activeElement.id === "look";
    on.replaceChildren(
      element("p", { class: "verdict" }, found ? chip(past ? "off" : found.tone, past ? `${found.verdict}, then` : found.verdict) : chip("unknown", "no plan yet"), element("span", { class: "small" }, `the plan of mm2 failover${found ? `, ${asOf(answer)}` : asOf(answer) && `: ${asOf(answer)}`}${past ? "; it is past" : ""}`)),
      ...(found ? planned(found) : []),
      element("p", {}, button),
    );
    if (focused) $("look").focus();
  }
}
function planned(found) {
  const facts = [
    ["Would be missing", found.lag_records === null ? UNKNOWN : counted(found.lag_records, "record") + (found.lag_ms === null ? "" : `, ${duration(found.lag_ms)}`)],
    ["Groups", count(found.group_count)],
    ["Re-read", found.read_again],
  ];
  if (found.unmoved_groups.length) facts.push(["Not moved", found.unmoved_groups.join(", ")]);
  if (found.silent) facts.push(["Silent", found.silent]);
  const list = element("dl", {}, ...facts.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
  const findings = found.findings.map((each) => element("li", {}, element("span", { class: `tone-${each.tone}` }, sign(each.tone)), ` ${each.weight}: ${each.text}`));
  if (found.findings_hidden) findings.push(element("li", {}, `… and ${found.findings_hidden} more`));
  const first = element("ul", { class: "plain lines" }, ...findings.slice(0, FINDINGS_AT_ONCE));
  const rest = findings.slice(FINDINGS_AT_ONCE);
  if (!rest.length) return [list, first];
  const more = element("details", {}, element("summary", {}, element("b", {}, `${count(rest.length)} more findings`)), element("ul", { class: "plain lines" }, ...rest));
  return [list, first, more];
}
