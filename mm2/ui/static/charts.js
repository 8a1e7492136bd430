// Charts of the last hour; unknown values are gaps.

import { $, drawn, element, set, text } from "./elements.js";
import { UNKNOWN, clock, count, duration } from "./units.js";

const MIN_SPAN_MS = 300000;
const CHARTS = [
  { name: "Lag, time", kind: "b", words: duration, of: (line) => line.lag_ms, least: 1000 },
  { name: "Lag, records", kind: "b", words: count, of: (line) => line.lag_records, least: 10 },
  { name: "Records/s", kind: "a", words: count, of: (line) => line.records_s, least: 10 },
];
export function drawCharts(line, nowMs) {
  const on = $("charts");
  if (!on.children.length) on.append(...CHARTS.map(makeChart));
  CHARTS.forEach((chart, number) => drawChart(on.children[number], chart, line, nowMs));
}
function makeChart(chart) {
  const caption = element("span"), svg = drawn("svg", { class: "chart", role: "img" });
  const made = element("figure", {}, element("figcaption", {}, element("b", {}, chart.name), caption), svg);
  svg.addEventListener("pointermove", (event) => point(made, event.offsetX));
  svg.addEventListener("pointerleave", () => point(made, null));
  return made;
}
function drawChart(on, chart, line, nowMs) {
  const svg = on.querySelector("svg"), width = Math.max(120, svg.clientWidth || 300), height = 112;
  const values = chart.of(line), known = values.filter((each) => each !== null);
  const top = ceiling(Math.max(chart.least, ...known)), plot = { left: 2, right: width - 2, top: 16, bottom: height - 16 };
  const spanMs = Math.min(line.kept_ms, Math.max(MIN_SPAN_MS, nowMs - (line.at_ms[0] ?? nowMs)));
  const x = (ms) => plot.right - (plot.right - plot.left) * Math.min(1, Math.max(0, (nowMs - ms) / spanMs));
  const y = (value) => plot.bottom - (plot.bottom - plot.top) * value / top;
  const pieces = runs(line, values);
  const path = pieces.map((piece) => `M${piece.map(([ms, value]) => `${x(ms).toFixed(1)} ${y(value).toFixed(1)}`).join("L")}${piece.length === 1 ? "h.1" : ""}`).join("");
  const area = pieces.map((piece) => `M${x(piece[0][0]).toFixed(1)} ${plot.bottom}${piece.map(([ms, value]) => `L${x(ms).toFixed(1)} ${y(value).toFixed(1)}`).join("")}L${x(piece.at(-1)[0]).toFixed(1)} ${plot.bottom}Z`).join("");
  set(svg, "viewBox", `0 0 ${width} ${height}`);
  const last = values.length ? values.at(-1) : null;
  const words = known.length ? `now ${last === null ? UNKNOWN : chart.words(last)}` : "no data yet";
  set(svg, "aria-label", `${chart.name}: ${words}${known.length ? `, maximum ${chart.words(Math.max(...known))} in the last hour` : ""}`);
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
    const isAdjacent = before !== null && ms - before <= 3 * line.step_ms;
    before = value === null ? null : ms;
    if (value === null) return;
    if (isAdjacent) found.at(-1).push([ms, value]);
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
  const { chart, line, values, x, plot, words } = on.data, caption = on.querySelector("figcaption span");
  on.querySelector(".hair")?.remove();
  if (at === null || !values.length) {
    text(caption, words);
    return;
  }
  const nearest = line.at_ms.reduce((best, ms, number) => Math.abs(x(ms) - at) < Math.abs(x(line.at_ms[best]) - at) ? number : best, 0);
  const value = values[nearest], px = x(line.at_ms[nearest]);
  text(caption, `${clock(line.at_ms[nearest])}: ${value === null ? UNKNOWN : chart.words(value)}`);
  on.querySelector("svg").append(drawn("path", { class: "hair", d: `M${px} ${plot.top}V${plot.bottom}` }));
}
