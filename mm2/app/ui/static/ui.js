// The status page. It asks /ui/api/… every few seconds and shows the answers; it changes nothing.
// All text goes in as text: names come from clusters. Lists keep their elements while they change,
// so that focus and what is selected stay.
"use strict";

const VERSION = 1;
const POLL_MS = 3000, ANSWER_MS = 6000, STALE_MS = 12000;
const GROUPS_MS = 10000, RECEIPTS_MS = 30000, PLAN_MS = 10000, PLAN_OLD_MS = 300000, SOON_MS = 1000;
const FINDINGS_AT_ONCE = 5;
const SVG = "http://www.w3.org/2000/svg";
const WORDS = { good: "well", wait: "look", bad: "bad", off: "off", unknown: "unknown" };
const $ = (id) => document.getElementById(id);

const page = { overview: null, detail: null, flow: "", look: false, answeredAt: null, toldAt: "", why: "" };

// Elements

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  return filled(made, attributes, children);
}
function drawn(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}
function filled(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) set(made, key, value);
  made.append(...children.filter((each) => each !== null && each !== undefined));
  return made;
}
function set(on, key, value) {
  if (value === null || value === undefined || value === false) on.removeAttribute(key);
  else if (on.getAttribute(key) !== String(value)) on.setAttribute(key, value === true ? "" : value);
}
function text(on, value) {
  if (on.textContent !== value) on.textContent = value;
}
function show(on, visible) {
  if (on.hidden === visible) on.hidden = !visible;
}
function sign(tone) {
  return drawn("svg", { class: "sign", "aria-hidden": "true" }, drawn("use", { href: `#sign-${tone}` }));
}
function chip(tone, word) {
  return element("span", { class: `chip tone-${tone}` }, sign(tone), word);
}

// Lists that keep their elements: `fill` is called for each item that is not as it was.
function list(parent, items, keyOf, make, fill) {
  const known = new Map([...parent.children].filter((each) => each.dataset.key !== undefined).map((each) => [each.dataset.key, each]));
  let before = null;
  for (const item of items) {
    const key = keyOf(item);
    let made = known.get(key);
    if (!made) {
      made = make(item);
      made.dataset.key = key;
    }
    known.delete(key);
    const told = JSON.stringify(item);
    if (made.told !== told) {
      fill(made, item);
      made.told = told;
    }
    const next = before ? before.nextElementSibling : parent.firstElementChild;
    if (next !== made) parent.insertBefore(made, next);
    before = made;
  }
  for (const gone of known.values()) gone.remove();
}

// A table: columns are [label, class, cell]; a cell is text or an element, the first one heads its row.
function table(on, columns, rows, keyOf, current) {
  if (!on.tHead) {
    const heads = columns.map(([label, kind]) => element("th", { scope: "col", class: kind, role: "columnheader" }, label));
    on.append(element("thead", { role: "rowgroup" }, element("tr", { role: "row" }, ...heads)), element("tbody", { role: "rowgroup" }));
    set(on, "role", "table");
  }
  show(on, rows.length > 0);
  list(on.tBodies[0], rows, keyOf, () => {
    const cells = columns.map(([label, kind], at) => at === 0
      ? element("th", { scope: "row", role: "rowheader" })
      : element("td", { class: kind, "data-label": label, role: "cell" }));
    return element("tr", { role: "row" }, ...cells);
  }, (row, item) => {
    columns.forEach(([, , cell], at) => {
      const made = cell(item);
      if (typeof made === "string") text(row.cells[at], made);
      else row.cells[at].replaceChildren(...[made].flat().filter(Boolean));
    });
  });
  if (current !== undefined) {
    for (const row of on.tBodies[0].rows) set(row, "aria-current", row.dataset.key === current ? "true" : null);
  }
}

// Words

const COUNT = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const FINE = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const UNKNOWN = "unknown";
function count(value) {
  return value === null || value === undefined ? UNKNOWN : (value > 0 && value < 9.95 ? FINE : COUNT).format(value);
}
function short(value) {
  for (const [unit, factor] of [["G", 1e9], ["M", 1e6], ["k", 1e3]]) {
    if (value >= factor * 0.9995) return `${FINE.format(value / factor)}${unit}`;
  }
  return count(value);
}
function size(value) {
  if (value === null || value === undefined) return UNKNOWN;
  for (const [unit, factor] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) {
    if (value >= factor * 0.9995) return `${(value / factor).toFixed(1)} ${unit}`;
  }
  return `${Math.round(value)} B`;
}
function duration(ms) {
  if (ms === null || ms === undefined) return UNKNOWN;
  const seconds = ms / 1000;
  if (seconds < 9.95) return seconds >= 0.05 ? `${seconds.toFixed(1)} s` : "0 s";
  if (seconds < 119.5) return `${Math.round(seconds)} s`;
  for (const [unit, factor] of [["d", 86400], ["h", 3600], ["min", 60]]) {
    if (seconds >= 2 * factor || unit === "min") return `${(seconds / factor).toFixed(1)} ${unit}`;
  }
  return "";
}
function counted(value, noun) {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}
function moment(ms) {
  return ms === null || ms === undefined ? UNKNOWN : new Date(ms).toISOString().replace(/\.\d+Z$/, "Z").replace("T", " ");
}
function clock(ms) {
  return new Date(ms).toISOString().slice(11, 19);
}
function states(found) {
  const parts = Object.entries(found).map(([state, number]) => `${count(number)} ${(state || UNKNOWN).toLowerCase().replaceAll("_", " ")}`);
  return parts.length ? parts.join(", ") : "none";
}
function lagRecords(of) {
  return of.lag_records === null ? UNKNOWN : `${of.lag_records_known ? "" : "at least "}${count(of.lag_records)}`;
}
function lagTime(of) {
  return of.lag_ms === null ? UNKNOWN : `${of.lag_ms_known ? "" : "at least "}${duration(of.lag_ms)}`;
}
function command(line) {
  return line ? element("code", { class: "command" }, line) : null;
}

// Asking

async function ask(path, query = {}) {
  const gone = new AbortController();
  const timer = setTimeout(() => gone.abort(), ANSWER_MS);
  try {
    const url = new URL(`ui/api/${path}`, document.baseURI);
    for (const [key, value] of Object.entries(query)) if (value !== "") url.searchParams.set(key, value);
    const answer = await fetch(url, { signal: gone.signal, cache: "no-store", credentials: "same-origin", redirect: "error", headers: { "X-Requested-With": "mm2" } });
    const found = await answer.json();
    if (found.version !== VERSION) throw new Error("another release answers: load this page again");
    if (!answer.ok) throw new Error(found.error || `the answer is ${answer.status}`);
    return found;
  } finally {
    clearTimeout(timer);
  }
}
function answered(found) {
  page.answeredAt = performance.now();
  page.toldAt = moment(found.at_ms);
  page.why = "";
  freshness();
}
function freshness() {
  const silent = page.answeredAt === null ? null : performance.now() - page.answeredAt;
  const stale = silent === null ? page.why !== "" : silent > STALE_MS || page.why !== "" && silent > POLL_MS + ANSWER_MS;
  document.documentElement.classList.toggle("stale", stale);
  show($("stale"), stale);
  if (stale) {
    const asOf = silent === null ? "Nothing is known yet." : `What stands here was so at ${page.toldAt}.`;
    text($("stale"), `The process does not answer (${page.why || "no answer in time"}). ${asOf} It is asked again.`);
    text($("fresh"), silent === null ? "stale" : `stale: ${duration(silent)} old`);
  } else {
    text($("fresh"), silent === null ? "no answer yet" : `as of ${page.toldAt}`);
  }
  headline(stale);
}
function headline(stale) {
  const flows = page.overview ? page.overview.flows : [];
  const worst = ["bad", "unknown", "wait", "off", "good"].find((tone) => flows.some((each) => each.tone === tone));
  const here = worst === "good" && flows.some((each) => each.elsewhere) ? " here" : "";
  document.title = stale ? "stale · mm2" : worst ? `${WORDS[worst]}${here} · mm2` : "mm2";
}
function failed(error) {
  page.why = error.name === "AbortError" || error instanceof TypeError ? "no answer in time" : error.message;
  freshness();
}

// Polls: each waits for its answer, and then for a while; `now` asks at once. Of a page that nobody
// sees only `always` goes on.
function poll(everyMs, doing, always = false) {
  let timer = null, running = false, again = false;
  async function turn() {
    clearTimeout(timer);
    if (running) {
      again = true;
      return;
    }
    running = true;
    let pauseMs = everyMs;
    try {
      if (always || !document.hidden) pauseMs = (await doing()) || everyMs;
    } catch (error) {
      failed(error);
    }
    running = false;
    timer = setTimeout(turn, again ? 0 : pauseMs);
    again = false;
  }
  return { now: turn };
}

const polls = {
  overview: poll(POLL_MS, async () => {
    const found = await ask("overview");
    page.overview = found;
    answered(found);
    choose();
    drawOverview(found);
    if (page.flow && !document.hidden) await readDetail();
  }, true),
  groups: poll(GROUPS_MS, async () => {
    if (page.flow) await asked("groups", { group: $("group-filter").value }, drawGroups);
  }),
  receipts: poll(RECEIPTS_MS, () => page.flow && asked("receipts", { look: "1" }, drawReceipts)),
  plan: poll(PLAN_MS, async () => {
    const look = page.look ? "1" : "";
    page.look = false;
    return page.flow && asked("plan", { look }, drawPlan);
  }),
};
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

// All flows

function choose() {
  const names = page.overview.flows.map((each) => each.flow);
  const wanted = decodeURIComponent(location.hash.slice(1));
  const flow = names.includes(wanted) ? wanted : names.includes(page.flow) ? page.flow : names[0] || "";
  if (flow === page.flow) return;
  page.flow = flow;
  page.detail = null;
  page.look = false;
  for (const id of ["groups", "plan"]) {
    $(id).replaceChildren();
    delete $(id).told;
  }
  drawReceipts({ found: null, running: true, error: "" });
  for (const each of [polls.groups, polls.receipts, polls.plan]) each.now();
}

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

function drawOverview(found) {
  const node = found.node;
  text($("node"), `${node.release} · ${node.host}, process ${node.pid} · ${node.file} · since ${moment(node.started_ms)} · ${node.engine} ${node.engine_ready ? "ready" : "not ready"}`);
  show($("no-flows"), found.flows.length === 0);
  table($("flows"), FLOW_COLUMNS, found.flows, (each) => each.flow, page.flow);
  drawTopology(found);
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

// Clusters in a row or a circle, a way for each flow

function drawTopology(found) {
  const on = $("topology"), width = Math.max(260, Math.floor(on.clientWidth || 600));
  const told = JSON.stringify([width, page.flow, found.clusters, found.flows.map((each) => [each.flow, each.tone, each.state_words, lagTime(each), short(each.records_s ?? 0), each.records_s === null])]);
  if (on.told === told || !found.clusters.length) return;
  on.told = told;
  const focused = document.activeElement && on.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  const places = placed(found.clusters.map((each) => each.alias), width);
  set(on, "viewBox", `0 0 ${width} ${places.height}`);
  set(on, "height", places.height);
  const names = new Set(found.flows.map((each) => each.flow));
  const ways = found.flows.map((each) => way(each, places, names.has(`${each.target}->${each.source}`)));
  const boxes = [...places.at].map(([alias, at]) => drawn("g", { class: "cluster" },
    drawn("title", {}, alias),
    drawn("rect", { x: at.x - places.half, y: at.y - 19, width: 2 * places.half, height: 38, rx: 8 }),
    drawn("text", { x: at.x, y: at.y + 5 }, cut(alias, places.half / 4.3))));
  on.replaceChildren(...ways, ...boxes);
  if (focused) on.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
}
function placed(aliases, width) {
  const half = Math.min(75, Math.max(42, width / 8)), at = new Map();
  if (aliases.length < 3) {
    aliases.forEach((alias, number) => at.set(alias, { x: number ? width - half - 2 : half + 2, y: 84 }));
    return { at, half, height: 168, beside: 24 };
  }
  const height = Math.min(460, Math.max(240, width * 0.42));
  aliases.forEach((alias, number) => {
    const turn = 2 * Math.PI * number / aliases.length - Math.PI;
    at.set(alias, { x: width / 2 + (width / 2 - half - 4) * Math.cos(turn), y: height / 2 + (height / 2 - 26) * Math.sin(turn) });
  });
  return { at, half, height, beside: 0 };
}
function way(each, places, twoWay) {
  const from = places.at.get(each.source), to = places.at.get(each.target);
  const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  const along = { x: (to.x - from.x) / length, y: (to.y - from.y) / length };
  const bend = twoWay ? Math.min(56, length / 4) : places.at.size > 2 ? length / 12 : 0;
  const middle = { x: (from.x + to.x) / 2 + along.y * bend, y: (from.y + to.y) / 2 - along.x * bend };
  const start = rim(from, middle, places.half), end = rim(to, middle, places.half);
  const turn = Math.atan2(end.y - middle.y, end.x - middle.x);
  const tip = [0, 2.6, -2.6].map((angle) => angle === 0 ? `${end.x} ${end.y}` : `${end.x + 12 * Math.cos(turn + angle)} ${end.y + 12 * Math.sin(turn + angle)}`);
  const aside = { x: along.y * places.beside, y: -along.x * places.beside };
  const centre = { x: (start.x + 2 * middle.x + end.x) / 4 + aside.x, y: (start.y + 2 * middle.y + end.y) / 4 + aside.y };
  const state = cut(each.state_words, 20);
  const told = `lag ${lagTime(each)}`, rate = each.records_s === null ? "" : `${short(each.records_s)} records/s`;
  const words = `${each.flow}: ${each.state_words}, ${told}${rate && `, ${rate}`}`;
  return drawn("a", { href: `#${encodeURIComponent(each.flow)}`, class: `edge tone-${each.tone}`, "aria-label": words },
    drawn("title", {}, words),
    drawn("path", { class: "way", d: `M${start.x} ${start.y}Q${middle.x} ${middle.y} ${end.x} ${end.y}` }),
    drawn("path", { class: "tip", d: `M${tip.join("L")}Z` }),
    ...(places.beside ? labelled(centre, each.tone, state, told) : badge(centre, each.tone)));
}
// Beside the ways of two clusters there is room for words; among more the table has them.
function labelled(at, tone, state, told) {
  return [
    drawn("svg", { x: at.x - 4 * state.length - 9, y: at.y - 16, width: 14, height: 14 }, drawn("use", { href: `#sign-${tone}` })),
    drawn("text", { class: "flow", x: at.x + 8, y: at.y - 5 }, state),
    drawn("text", { x: at.x, y: at.y + 12 }, cut(told, 19)),
  ];
}
function badge(at, tone) {
  return [
    drawn("circle", { cx: at.x, cy: at.y, r: 12 }),
    drawn("svg", { x: at.x - 8, y: at.y - 8, width: 16, height: 16 }, drawn("use", { href: `#sign-${tone}` })),
  ];
}
function rim(box, to, half) {
  const dx = to.x - box.x, dy = to.y - box.y;
  const scale = Math.min((half + 4) / (Math.abs(dx) || 1e-9), 23 / (Math.abs(dy) || 1e-9));
  return { x: box.x + dx * scale, y: box.y + dy * scale };
}
function cut(value, most) {
  return value.length <= most ? value : `${value.slice(0, Math.max(1, Math.floor(most) - 1))}…`;
}

// One flow

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

function drawDetail(found) {
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
  if (found.stuck) lines.push({ tone: "unknown", text: found.stuck });
  for (const each of found.warnings) lines.push({ tone: "wait", text: each });
  if (found.elsewhere) lines.push({ tone: "off", text: `${counted(found.elsewhere, "partition")} are copied by other nodes (${found.nodes.join(", ")}), whose pages show them` });
  for (const each of found.troubles) lines.push({ tone: "off", text: `${each.at_ms === null ? "" : `${moment(each.at_ms)}: `}${each.text}` });
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

// Charts: the last hour, holes where nothing was known

const SPAN_LEAST_MS = 300000;
const CHARTS = [
  { name: "Lag, time", kind: "b", words: duration, of: (line) => line.lag_ms, least: 1000 },
  { name: "Lag, records", kind: "b", words: count, of: (line) => line.lag_records, least: 10 },
  { name: "Records/s", kind: "a", words: count, of: (line) => line.records_s, least: 10 },
];
function drawCharts(line, nowMs) {
  const on = $("charts");
  if (!on.children.length) on.append(...CHARTS.map(makeChart));
  CHARTS.forEach((chart, number) => drawChart(on.children[number], chart, line, nowMs));
}
function makeChart(chart) {
  const told = element("span"), svg = drawn("svg", { class: "chart", role: "img" });
  const made = element("figure", {}, element("figcaption", {}, element("b", {}, chart.name), told), svg);
  svg.addEventListener("pointermove", (event) => point(made, event.offsetX));
  svg.addEventListener("pointerleave", () => point(made, null));
  return made;
}
function drawChart(on, chart, line, nowMs) {
  const svg = on.querySelector("svg"), width = Math.max(120, svg.clientWidth || 300), height = 112;
  const values = chart.of(line), known = values.filter((each) => each !== null);
  const top = ceiling(Math.max(chart.least, ...known)), plot = { left: 2, right: width - 2, top: 16, bottom: height - 16 };
  const spanMs = Math.min(line.kept_ms, Math.max(SPAN_LEAST_MS, nowMs - (line.at_ms[0] ?? nowMs)));
  const x = (ms) => plot.right - (plot.right - plot.left) * Math.min(1, Math.max(0, (nowMs - ms) / spanMs));
  const y = (value) => plot.bottom - (plot.bottom - plot.top) * value / top;
  const pieces = runs(line, values);
  const path = pieces.map((piece) => `M${piece.map(([ms, value]) => `${x(ms).toFixed(1)} ${y(value).toFixed(1)}`).join("L")}${piece.length === 1 ? "h.1" : ""}`).join("");
  const area = pieces.map((piece) => `M${x(piece[0][0]).toFixed(1)} ${plot.bottom}${piece.map(([ms, value]) => `L${x(ms).toFixed(1)} ${y(value).toFixed(1)}`).join("")}L${x(piece.at(-1)[0]).toFixed(1)} ${plot.bottom}Z`).join("");
  set(svg, "viewBox", `0 0 ${width} ${height}`);
  const last = values.length ? values.at(-1) : null;
  const words = known.length ? `now ${last === null ? UNKNOWN : chart.words(last)}` : "no data yet";
  set(svg, "aria-label", `${chart.name}: ${words}${known.length ? `, at most ${chart.words(Math.max(...known))} in the last hour` : ""}`);
  svg.replaceChildren(
    drawn("path", { class: "axis", d: `M${plot.left} ${plot.bottom}H${plot.right}M${plot.left} ${plot.top}H${plot.right}` }),
    drawn("text", { x: plot.left, y: plot.top - 4 }, chart.words(top)),
    drawn("text", { x: plot.left, y: height - 3 }, `${Math.round(spanMs / 60000)} min ago`),
    drawn("text", { x: plot.right, y: height - 3, "text-anchor": "end" }, "now"),
    drawn("path", { class: `area-${chart.kind}`, d: area }),
    drawn("path", { class: `line-${chart.kind}`, d: path }),
    known.length ? "" : drawn("text", { class: "none", x: width / 2, y: height / 2 }, "no data yet"),
  );
  on.data = { chart, line, values, x, plot, words };
  point(on, on.pointed ?? null);
}
function runs(line, values) {
  const found = [];
  let before = null;
  values.forEach((value, number) => {
    const ms = line.at_ms[number];
    const goesOn = before !== null && ms - before <= 3 * line.step_ms;
    before = value === null ? null : ms;
    if (value === null) return;
    if (goesOn) found.at(-1).push([ms, value]);
    else found.push([[ms, value]]);
  });
  return found;
}
function ceiling(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((each) => each * power).find((each) => each >= value);
}
function point(on, at) {
  on.pointed = at;
  const { chart, line, values, x, plot, words } = on.data, told = on.querySelector("figcaption span");
  on.querySelector(".hair")?.remove();
  if (at === null || !values.length) {
    text(told, words);
    return;
  }
  const nearest = line.at_ms.reduce((best, ms, number) => Math.abs(x(ms) - at) < Math.abs(x(line.at_ms[best]) - at) ? number : best, 0);
  const value = values[nearest], px = x(line.at_ms[nearest]);
  text(told, `${clock(line.at_ms[nearest])}: ${value === null ? UNKNOWN : chart.words(value)}`);
  on.querySelector("svg").append(drawn("path", { class: "hair", d: `M${px} ${plot.top}V${plot.bottom}` }));
}

// Groups

const GROUP_COLUMNS = [
  ["Topic", "", (each) => [`${each.topic ?? each.mirror}-${each.partition}`, element("span", { class: "small" }, `goes on in ${each.mirror}-${each.partition}`)]],
  ["Has read to", "num", (each) => count(each.source_offset)],
  ["Goes on at", "num", (each) => count(each.mirror_offset)],
  ["Unread", "num", (each) => count(each.unread_records)],
];
function drawGroups(found) {
  const shown = found.groups.length, ends = page.overview.flows.find((each) => each.flow === found.flow);
  let told = "No task of this process makes checkpoints of this flow: no group was found yet, they are off, or another node makes them. mm2 offsets translate --group NAME asks the clusters.";
  if (found.tasks_here) {
    const asOf = found.round_ms === null ? "the first round of checkpoints is under way" : `checkpoints as of ${moment(found.round_ms)}`;
    const more = found.groups_found > shown ? `; the first ${shown} of ${count(found.groups_found)} are shown: narrow it with the name` : "";
    told = `${counted(found.group_count, "group")} here, ${asOf}${more}. Offsets are those that a group has read to on ${ends.source}, and where it would go on on ${ends.target}.`;
  }
  text($("groups-note"), told);
  list($("groups"), found.groups, (each) => each.group, () => element("li", {}, element("details", {}, element("summary"), element("table", {}, element("caption", { class: "hidden" }, "Positions")))), (on, each) => {
    const unread = each.unread_records === null ? UNKNOWN : `${each.unread_known ? "" : "at least "}${count(each.unread_records)}`;
    on.querySelector("summary").replaceChildren(element("b", {}, each.group), element("span", { class: "small" }, `${counted(each.partition_count, "partition")}, unread: ${unread}`));
    table(on.querySelector("table"), GROUP_COLUMNS, each.partitions, (one) => `${one.mirror} ${one.partition}`);
  });
}

// Receipts, and the plan of a failover: what mm2's own commands say, as of when they were asked

const RECEIPT_COLUMNS = [
  ["At", "", (each) => moment(each.at_ms)],
  ["Kind", "", (each) => each.kind],
  ["Topic", "", (each) => `${each.topic}-${each.partition}`],
  ["Source offsets", "", (each) => range(each.source)],
  ["Mirror offsets", "", (each) => range(each.target)],
  ["Detail", "", (each) => each.detail],
];
function range(offsets) {
  return offsets ? `${count(offsets[0])} to ${count(offsets[1] - 1)}` : "";
}
function asOf(found) {
  const told = found.found_ms === null || found.found_ms === undefined ? "" : `as of ${moment(found.found_ms)}`;
  const trying = found.running ? "the clusters are being asked …" : "";
  const wrong = found.error ? `asked in vain: ${found.error}` : "";
  return [told, trying, wrong].filter(Boolean).join("; ");
}
function drawReceipts(answer) {
  const found = answer.found;
  let told = "";
  if (found) {
    const kinds = Object.entries(found.kinds).map(([kind, number]) => `${count(number)} ${kind}`).join(", ");
    const more = found.receipt_count > found.receipts.length ? `; the newest ${found.receipts.length} are shown, mm2 receipts lists all` : "";
    told = found.receipt_count ? `${counted(found.receipt_count, "receipt")} (${kinds})${more}; ` : "No receipts; ";
  }
  text($("receipts-note"), told + (asOf(answer) || UNKNOWN));
  table($("receipts"), RECEIPT_COLUMNS, found ? found.receipts : [], (each) => each.id);
  return answer.running ? SOON_MS : RECEIPTS_MS;
}
// A plan is of its moment. One that is old, or of a flow that is no longer well, looks well no more.
function isPast(answer) {
  const flow = page.overview.flows.find((each) => each.flow === page.flow);
  return answer.at_ms - answer.found_ms > PLAN_OLD_MS || !flow || !["good", "wait"].includes(flow.tone);
}
function drawPlan(answer) {
  const past = answer.found?.tone === "good" && isPast(answer);
  const on = $("plan"), found = answer.found, told = JSON.stringify([answer.found, answer.found_ms, answer.error, answer.running, past]);
  if (on.told !== told) {
    on.told = told;
    const button = element("button", { type: "button", id: "look", disabled: answer.running }, answer.running ? "Both clusters are looked at …" : "Make the plan now");
    button.addEventListener("click", () => {
      page.look = true;
      polls.plan.now();
    });
    const focused = document.activeElement && document.activeElement.id === "look";
    on.replaceChildren(
      element("p", { class: "verdict" }, found ? chip(past ? "off" : found.tone, past ? `${found.verdict}, then` : found.verdict) : chip("unknown", "no plan yet"), element("span", { class: "small" }, `the plan of mm2 failover${found ? `, ${asOf(answer)}` : asOf(answer) && `: ${asOf(answer)}`}${past ? "; it is past" : ""}`)),
      ...(found ? planned(found) : []),
      element("p", {}, button),
    );
    if (focused) $("look").focus();
  }
  return answer.running ? SOON_MS : PLAN_MS;
}
function planned(found) {
  const facts = [
    ["Would be missing", found.lag_records === null ? UNKNOWN : counted(found.lag_records, "record") + (found.lag_ms === null ? "" : `, ${duration(found.lag_ms)}`)],
    ["Groups", `${count(found.group_count)}, at most ${counted(found.read_again_max, "record")} read again`],
  ];
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

// Begin

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
  drawOverview(page.overview);
  polls.overview.now();
  $("detail-head").focus({ preventScroll: false });
});
window.addEventListener("resize", later(() => {
  if (page.overview) drawOverview(page.overview);
  if (page.detail) drawDetail(page.detail);
}, 100));
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) Object.values(polls).forEach((each) => each.now());
});
$("topic-filter").addEventListener("input", later(() => polls.overview.now(), 250));
$("group-filter").addEventListener("input", later(() => polls.groups.now(), 250));
setInterval(freshness, 1000);
polls.overview.now();
