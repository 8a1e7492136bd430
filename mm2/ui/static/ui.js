// The status page: fetches /ui/api/… every few seconds and shows the documents; it changes nothing.

import { drawPlan, drawIncidents } from "./command_results.js";
import { fetchDocument } from "./api_client.js";
import { $, show } from "./elements.js";
import { drawDetail } from "./flow.js";
import { POLL_MS, recordSuccess, updateFreshness } from "./freshness.js";
import { drawGroups } from "./groups.js";
import { drawOverview } from "./overview.js";
import { poll } from "./poller.js";

const GROUPS_MS = 10000, INCIDENTS_MS = 30000, PLAN_MS = 10000, SOON_MS = 1000;

// `flow` is the name of the flow that is shown, "" for none; `planRequested`: a new plan is wanted.
const page = { overview: null, detail: null, flow: "", planRequested: false };

const polls = {
  overview: poll(POLL_MS, async () => {
    const found = await fetchDocument("overview");
    page.overview = found;
    recordSuccess(found);
    chooseFlow();
    drawOverview(found, page.flow);
    if (page.flow && !document.hidden) await readDetail();
  }, true),
  groups: poll(GROUPS_MS, async () => {
    if (page.flow) await fetchForFlow("groups", { group: $("group-filter").value }, (found) => drawGroups(found, shown()));
  }),
  incidents: poll(INCIDENTS_MS, async () => {
    if (!page.flow) return 0;
    return fetchForFlow("incidents", { look: "1" }, (answer) => {
      drawIncidents(answer);
      return answer.running ? SOON_MS : 0;
    });
  }),
  plan: poll(PLAN_MS, async () => {
    const look = page.planRequested ? "1" : "";
    page.planRequested = false;
    if (!page.flow) return 0;
    return fetchForFlow("plan", { look }, (answer) => {
      drawPlan(answer, shown(), requestPlan);
      return answer.running ? SOON_MS : 0;
    });
  }),
};
function requestPlan() {
  page.planRequested = true;
  polls.plan.now();
}
function shown() {
  return page.overview.flows.find((each) => each.flow === page.flow);
}
async function readDetail() {
  await fetchForFlow("flow", { topic: $("topic-filter").value }, (found) => {
    page.detail = found;
    drawDetail(found);
  });
}
// Drops the response if another flow is shown meanwhile.
async function fetchForFlow(path, query, draw) {
  const flow = page.flow;
  const found = await fetchDocument(path, { flow, ...query });
  return flow === page.flow ? draw(found) : undefined;
}
// Shows the flow named in the address, else the one shown before, else the first.
function chooseFlow() {
  const names = page.overview.flows.map((each) => each.flow), wanted = flowInAddress();
  const flow = names.includes(wanted) ? wanted : names.includes(page.flow) ? page.flow : names[0] || "";
  if (flow === page.flow) return;
  page.flow = flow;
  page.detail = null;
  page.planRequested = false;
  for (const id of ["groups", "plan"]) {
    $(id).replaceChildren();
    delete $(id).drawnState;
  }
  if (!flow) show($("detail"), false);
  drawIncidents({ result: null, running: true, error: "" });
  for (const each of [polls.groups, polls.incidents, polls.plan]) each.now();
}
function flowInAddress() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return "";
  }
}

function debounce(doing, ms) {
  let timer = null;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(doing, ms);
  };
}
window.addEventListener("hashchange", () => {
  if (!page.overview) return;
  chooseFlow();
  drawOverview(page.overview, page.flow);
  polls.overview.now();
  $("detail-head").focus({ preventScroll: false });
});
window.addEventListener("resize", debounce(() => {
  if (page.overview) drawOverview(page.overview, page.flow);
  if (page.detail) drawDetail(page.detail);
}, 100));
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) Object.values(polls).forEach((each) => each.now());
});
$("topic-filter").addEventListener("input", debounce(() => polls.overview.now(), 250));
$("group-filter").addEventListener("input", debounce(() => polls.groups.now(), 250));
setInterval(updateFreshness, 1000);
polls.overview.now();
