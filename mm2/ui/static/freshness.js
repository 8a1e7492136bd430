// How old what is shown is: a page that gets no answers says so.

import { ANSWER_MS } from "./asking.js";
import { $, show, text } from "./elements.js";
import { duration, moment } from "./words.js";

export const POLL_MS = 3000;
const STALE_MS = 12000;
const WORDS = { good: "well", wait: "look", bad: "bad", off: "off", unknown: "unknown" };

// The last answer about all flows; `why` the last question had none.
const last = { answeredAt: null, toldAt: "", flows: [], why: "" };

export function answered(overview) {
  last.answeredAt = performance.now();
  last.toldAt = moment(overview.at_ms);
  last.flows = overview.flows;
  last.why = "";
  freshness();
}
export function failed(error) {
  last.why = error.name === "AbortError" || error instanceof TypeError ? "no answer in time" : error.message;
  freshness();
}
export function freshness() {
  const silent = last.answeredAt === null ? null : performance.now() - last.answeredAt;
  const stale = silent === null ? last.why !== "" : silent > STALE_MS || last.why !== "" && silent > POLL_MS + ANSWER_MS;
  document.documentElement.classList.toggle("stale", stale);
  show($("stale"), stale);
  if (stale) {
    const asOf = silent === null ? "Nothing is known yet." : `What stands here was so at ${last.toldAt}.`;
    text($("stale"), `The process does not answer (${last.why || "no answer in time"}). ${asOf} It is asked again.`);
    text($("fresh"), silent === null ? "stale" : `stale: ${duration(silent)} old`);
  } else {
    text($("fresh"), silent === null ? "no answer yet" : `as of ${last.toldAt}`);
  }
  headline(stale);
}
function headline(stale) {
  const worst = ["bad", "unknown", "wait", "off", "good"].find((tone) => last.flows.some((each) => each.tone === tone));
  const here = worst === "good" && last.flows.some((each) => each.elsewhere) ? " here" : "";
  document.title = stale ? "stale · mm2" : worst ? `${WORDS[worst]}${here} · mm2` : "mm2";
}
