// Shows how old the data is, and warns if the process does not respond.

import { REQUEST_TIMEOUT_MS } from "./api_client.js";
import { $, show, text } from "./elements.js";
import { duration, moment } from "./units.js";

export const POLL_MS = 3000;
const STALE_MS = 12000;
const WORDS = { good: "healthy", wait: "waiting", bad: "unhealthy", off: "stopped", unknown: "unknown" };

// The last overview, and why the last request failed ("" if it succeeded).
const last = { answeredAt: null, dataTime: "", flows: [], error: "" };

export function recordSuccess(overview) {
  last.answeredAt = performance.now();
  last.dataTime = moment(overview.at_ms);
  last.flows = overview.flows;
  last.error = "";
  updateFreshness();
}
export function recordFailure(error) {
  last.error = error.name === "AbortError" || error instanceof TypeError ? "no response in time" : error.message;
  updateFreshness();
}
export function updateFreshness() {
  const silent = last.answeredAt === null ? null : performance.now() - last.answeredAt;
  const stale = silent === null ? last.error !== "" : silent > STALE_MS || last.error !== "" && silent > POLL_MS + REQUEST_TIMEOUT_MS;
  document.documentElement.classList.toggle("stale", stale);
  show($("stale"), stale);
  if (stale) {
    const asOf = silent === null ? "No data yet." : `The page shows the state as of ${last.dataTime}.`;
    text($("stale"), `The process does not respond (${last.error || "no response in time"}). ${asOf} Retrying.`);
    text($("fresh"), silent === null ? "stale" : `stale: ${duration(silent)} old`);
  } else {
    text($("fresh"), silent === null ? "no response yet" : `as of ${last.dataTime}`);
  }
  headline(stale);
}
function headline(stale) {
  const worst = ["bad", "unknown", "wait", "off", "good"].find((severity) => last.flows.some((each) => each.badge === severity));
  const here = worst === "good" && last.flows.some((each) => each.partitions_on_other_nodes) ? " here" : "";
  document.title = stale ? "stale · mm2" : worst ? `${WORDS[worst]}${here} · mm2` : "mm2";
}
