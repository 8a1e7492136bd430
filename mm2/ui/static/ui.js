// The status page. It asks /ui/api/… every few seconds and shows the answers; it changes nothing.

import { drawPlan, drawIncidents } from "./answers.js";
import { ask } from "./asking.js";
import { $, show } from "./elements.js";
import { drawDetail } from "./flow.js";
import { POLL_MS, answered, freshness } from "./freshness.js";
import { drawGroups } from "./groups.js";
import { drawOverview } from "./overview.js";
import { poll } from "./polls.js";

const GROUPS_MS = 10000, INCIDENTS_MS = 30000, PLAN_MS = 10000, SOON_MS = 1000;

// `flow` is the name of the one that is shown, "" for none; `look`: a plan of it is wanted.
const page = { overview: null, detail: null, flow: "", look: false };

const polls = {
  overview: poll(POLL_MS, async () => {
    const found = await ask("overview");
    page.overview = found;
    answered(found);
    choose();
    drawOverview(found, page.flow);
    if (page.flow && !document.hidden) await readDetail();
  }, true),
  groups: poll(GROUPS_MS, async () => {
    if (page.flow) await asked("groups", { group: $("group-filter").value }, (found) => drawGroups(found, shown()));
  }),
  incidents: poll(INCIDENTS_MS, async () => {
    if (!page.flow) return 0;
    return asked("incidents", { look: "1" }, (answer) => {
      drawIncidents(answer);
      return answer.running ? SOON_MS : 0;
    });
  }),
  plan: poll(PLAN_MS, async () => {
    const look = page.look ? "1" : "";
    page.look = false;
    if (!page.flow) return 0;
    return asked("plan", { look }, (answer) => {
      drawPlan(answer, shown(), wantPlan);
      return answer.running ? SOON_MS : 0;
    });
  }),
};
function wantPlan() {
  page.look = true;
  polls.plan.now();
}
function shown() {
  return page.overview.flows.find((each) => each.flow === page.flow);
}
async function readDetail() {
  await asked("flow", { topic: $("topic-filter").value }, (found) => {
    page.detail = found;
    drawDetail(found);
  });
}
// What was asked of a flow that is no longer shown is dropped.
async function asked(path, query, draw) {
  const flow = page.flow;
  const found = await ask(path, { flow, ...query });
  return flow === page.flow ? draw(found) : undefined;
}
// The flow that the address names, else the one that was shown, else the first.
function choose() {
  const names = page.overview.flows.map((each) => each.flow), wanted = named();
  const flow = names.includes(wanted) ? wanted : names.includes(page.flow) ? page.flow : names[0] || "";
  if (flow === page.flow) return;
  page.flow = flow;
  page.detail = null;
  page.look = false;
  for (const id of ["groups", "plan"]) {
    $(id).replaceChildren();
    delete $(id).told;
  }
  if (!flow) show($("detail"), false);
  drawIncidents({ found: null, running: true, error: "" });
  for (const each of [polls.groups, polls.incidents, polls.plan]) each.now();
}
function named() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return "";
  }
}

function later(doing, ms) {
  let timer = null;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(doing, ms);
  };
}
window.addEventListener("hashchange", () => {
  if (!page.overview) return;
  choose();
  drawOverview(page.overview, page.flow);
  polls.overview.now();
  $("detail-head").focus({ preventScroll: false });
});
window.addEventListener("resize", later(() => {
  if (page.overview) drawOverview(page.overview, page.flow);
  if (page.detail) drawDetail(page.detail);
}, 100));
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) Object.values(polls).forEach((each) => each.now());
});
$("topic-filter").addEventListener("input", later(() => polls.overview.now(), 250));
$("group-filter").addEventListener("input", later(() => polls.groups.now(), 250));
setInterval(freshness, 1000);
polls.overview.now();
