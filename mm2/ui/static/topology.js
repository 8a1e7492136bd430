// The map: clusters in a row or a circle, and an edge for each flow.

import { $, drawn, set } from "./elements.js";
import { lagTime, short } from "./units.js";

export function drawTopology(found, current) {
  const on = $("topology"), width = Math.max(260, Math.floor(on.clientWidth || 600));
  const state = JSON.stringify([width, current, found.clusters, found.flows.map((each) => [each.flow, each.badge, each.state_text, lagTime(each), short(each.records_s ?? 0), each.records_s === null])]);
  if (on.drawnState === state) return;
  on.drawnState = state;
  const focused = document.activeElement && on.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  const places = placed(found.clusters.map((each) => each.alias), width);
  set(on, "viewBox", `0 0 ${width} ${places.height}`);
  set(on, "height", places.height);
  const names = new Set(found.flows.map((each) => each.flow));
  const edges = found.flows.map((each) => edge(each, places, names.has(`${each.target}->${each.source}`)));
  const boxes = [...places.at].map(([alias, at]) => drawn("g", { class: "cluster" },
    drawn("title", {}, alias),
    drawn("rect", { x: at.x - places.half, y: at.y - 19, width: 2 * places.half, height: 38, rx: 8 }),
    drawn("text", { x: at.x, y: at.y + 5 }, cut(alias, places.half / 4.3))));
  on.replaceChildren(...edges, ...boxes);
  if (focused) on.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
}
function placed(aliases, width) {
  const half = Math.min(75, Math.max(42, width / 8)), at = new Map();
  if (!aliases.length) return { at, half, height: 0, beside: 0 };
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
function edge(each, places, twoWay) {
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
  const state = cut(each.state_text, 20);
  const told = `lag ${lagTime(each)}`, rate = each.records_s === null ? "" : `${short(each.records_s)} records/s`;
  const words = `${each.flow}: ${each.state_text}, ${told}${rate && `, ${rate}`}`;
  return drawn("a", { href: `#${encodeURIComponent(each.flow)}`, class: `edge severity-${each.badge}`, "aria-label": words },
    drawn("title", {}, words),
    drawn("path", { class: "way", d: `M${start.x} ${start.y}Q${middle.x} ${middle.y} ${end.x} ${end.y}` }),
    drawn("path", { class: "tip", d: `M${tip.join("L")}Z` }),
    ...(places.beside ? labelled(centre, each.badge, state, told) : badge(centre, each.badge)));
}
// Between two clusters there is room for labels; with more, the table has them.
function labelled(at, severity, state, told) {
  return [
    drawn("svg", { x: at.x - 4 * state.length - 9, y: at.y - 16, width: 14, height: 14 }, drawn("use", { href: `#sign-${severity}` })),
    drawn("text", { class: "flow", x: at.x + 8, y: at.y - 5 }, state),
    drawn("text", { x: at.x, y: at.y + 12 }, cut(told, 19)),
  ];
}
function badge(at, severity) {
  return [
    drawn("circle", { cx: at.x, cy: at.y, r: 12 }),
    drawn("svg", { x: at.x - 8, y: at.y - 8, width: 16, height: 16 }, drawn("use", { href: `#sign-${severity}` })),
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
