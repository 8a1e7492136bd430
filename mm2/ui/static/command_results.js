// Results of mm2 commands that the process runs for the page: incidents and the failover plan.

import { $, chip, element, sign, table, text } from "./elements.js";
import { UNKNOWN, count, counted, duration, moment } from "./units.js";

const PLAN_MAX_AGE_MS = 300000;
const FINDINGS_SHOWN = 5;

const INCIDENT_COLUMNS = [
  ["At", "", (each) => moment(each.at_ms)],
  ["Kind", "", (each) => each.kind],
  ["Topic", "", (each) => place(each)],
  ["Source offsets", "", (each) => range(each.source)],
  ["Mirror offsets", "", (each) => range(each.target)],
  ["Detail", "", (each) => each.detail],
];
// Operator actions concern a topic or the whole flow, not a partition.
function place(each) {
  return each.partition === null ? each.topic ?? "" : `${each.topic}-${each.partition}`;
}
function range(offsets) {
  return offsets ? `${count(offsets[0])} to ${count(offsets[1] - 1)}` : "";
}
function asOf(found) {
  const told = found.result_ms === null || found.result_ms === undefined ? "" : `as of ${moment(found.result_ms)}`;
  const trying = found.running ? "querying the clusters …" : "";
  const wrong = found.error ? `failed: ${found.error}` : "";
  return [told, trying, wrong].filter(Boolean).join("; ");
}
export function drawIncidents(answer) {
  const found = answer.result;
  let told = "", rows = [];
  if (found) {
    rows = [...found.incidents, ...found.actions].sort((one, other) => other.at_ms - one.at_ms);
    const kinds = Object.entries(found.kinds).map(([kind, number]) => `${count(number)} ${kind}`).join(", ");
    const more = found.incident_count > found.incidents.length ? `; showing the newest ${found.incidents.length}, mm2 incidents lists all` : "";
    told = found.incident_count ? `${counted(found.incident_count, "incident")} (${kinds})${more}; ` : "No incidents; ";
    if (found.actions.length) told += `${counted(found.actions.length, "recorded operator action")}; `;
  }
  text($("incidents-note"), told + (asOf(answer) || UNKNOWN));
  table($("incidents"), INCIDENT_COLUMNS, rows, (each) => each.id);
}
// A good verdict is outdated when the plan is old, or the flow is no longer healthy.
function isOutdated(answer, flow) {
  return answer.at_ms - answer.result_ms > PLAN_MAX_AGE_MS || !["good", "wait"].includes(flow.badge);
}
// `flow` is the flow's entry in the overview; `makePlan` requests a new plan.
export function drawPlan(answer, flow, makePlan) {
  const outdated = answer.result?.badge === "good" && isOutdated(answer, flow);
  const on = $("plan"), found = answer.result, told = JSON.stringify([answer.result, answer.result_ms, answer.error, answer.running, outdated]);
  if (on.drawnState !== told) {
    on.drawnState = told;
    const button = element("button", { type: "button", id: "look", disabled: answer.running }, answer.running ? "Planning …" : "Plan a failover now");
    button.addEventListener("click", makePlan);
    const focused = document.activeElement && document.activeElement.id === "look";
    on.replaceChildren(
      element("p", { class: "verdict" }, found ? chip(outdated ? "off" : found.badge, outdated ? `${found.verdict} (outdated)` : found.verdict) : chip("unknown", "no plan yet"), element("span", { class: "small" }, `plan of mm2 failover${found ? `, ${asOf(answer)}` : asOf(answer) && `: ${asOf(answer)}`}${outdated ? "; outdated" : ""}`)),
      ...(found ? planned(found) : []),
      element("p", {}, button),
    );
    if (focused) $("look").focus();
  }
}
function planned(found) {
  const facts = [
    ["Not replicated yet", found.lag_records === null ? UNKNOWN : counted(found.lag_records, "record") + (found.lag_ms === null ? "" : `, ${duration(found.lag_ms)}`)],
    ["Groups", count(found.group_count)],
    ["Re-read", found.reread],
  ];
  if (found.unmoved_groups.length) facts.push(["Not moved", found.unmoved_groups.join(", ")]);
  if (found.origin_error) facts.push(["Source does not respond", found.origin_error]);
  const list = element("dl", {}, ...facts.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
  const findings = found.findings.map((each) => element("li", {}, element("span", { class: `severity-${each.badge}` }, sign(each.badge)), ` ${each.weight}: ${each.text}`));
  if (found.findings_hidden) findings.push(element("li", {}, `… and ${found.findings_hidden} more`));
  const first = element("ul", { class: "plain lines" }, ...findings.slice(0, FINDINGS_SHOWN));
  const rest = findings.slice(FINDINGS_SHOWN);
  if (!rest.length) return [list, first];
  const more = element("details", {}, element("summary", {}, element("b", {}, `${count(rest.length)} more findings`)), element("ul", { class: "plain lines" }, ...rest));
  return [list, first, more];
}
