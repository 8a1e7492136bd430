// Formats numbers, sizes, durations, times and states.

const COUNT = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const FINE = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
export const UNKNOWN = "unknown";
export function count(value) {
  return value === null || value === undefined ? UNKNOWN : (value > 0 && value < 9.95 ? FINE : COUNT).format(value);
}
export function short(value) {
  for (const [unit, factor] of [["G", 1e9], ["M", 1e6], ["k", 1e3]]) {
    if (value >= factor * 0.9995) return `${FINE.format(value / factor)}${unit}`;
  }
  return count(value);
}
export function size(value) {
  if (value === null || value === undefined) return UNKNOWN;
  for (const [unit, factor] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) {
    if (value >= factor * 0.9995) return `${(value / factor).toFixed(1)} ${unit}`;
  }
  return `${Math.round(value)} B`;
}
export function duration(ms) {
  if (ms === null || ms === undefined) return UNKNOWN;
  const seconds = ms / 1000;
  if (seconds < 9.95) return seconds >= 0.05 ? `${seconds.toFixed(1)} s` : "0 s";
  if (seconds < 119.5) return `${Math.round(seconds)} s`;
  for (const [unit, factor] of [["d", 86400], ["h", 3600], ["min", 60]]) {
    if (seconds >= 2 * factor || unit === "min") return `${(seconds / factor).toFixed(1)} ${unit}`;
  }
  return "";
}
export function counted(value, noun) {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}
export function moment(ms) {
  return ms === null || ms === undefined ? UNKNOWN : new Date(ms).toISOString().replace(/\.\d+Z$/, "Z").replace("T", " ");
}
export function clock(ms) {
  return new Date(ms).toISOString().slice(11, 19);
}
export function states(found) {
  const parts = Object.entries(found).map(([state, number]) => `${count(number)} ${(state || UNKNOWN).toLowerCase().replaceAll("_", " ")}`);
  return parts.length ? parts.join(", ") : "none";
}
export function lagRecords(of) {
  return of.lag_records === null ? UNKNOWN : `${of.lag_records_known ? "" : "at least "}${count(of.lag_records)}`;
}
export function lagTime(of) {
  return of.lag_ms === null ? UNKNOWN : `${of.lag_ms_known ? "" : "at least "}${duration(of.lag_ms)}`;
}
