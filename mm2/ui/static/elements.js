// Builds and updates elements. Text is always inserted as text, because names come from clusters. Lists
// reuse their elements, so that focus and selection are kept.

const SVG = "http://www.w3.org/2000/svg";
export const $ = (id) => document.getElementById(id);

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  return filled(made, attributes, children);
}
export function drawn(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}
function filled(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) set(made, key, value);
  made.append(...children.filter((each) => each !== null && each !== undefined));
  return made;
}
export function set(on, key, value) {
  if (value === null || value === undefined || value === false) on.removeAttribute(key);
  else if (on.getAttribute(key) !== String(value)) on.setAttribute(key, value === true ? "" : value);
}
export function text(on, value) {
  if (on.textContent !== value) on.textContent = value;
}
export function show(on, visible) {
  if (on.hidden === visible) on.hidden = !visible;
}
export function sign(severity) {
  return drawn("svg", { class: "sign", "aria-hidden": "true" }, drawn("use", { href: `#sign-${severity}` }));
}
export function chip(severity, word) {
  return element("span", { class: `chip severity-${severity}` }, sign(severity), word);
}

// Updates a list, reusing elements by key: `fill` is called for each item that has changed. Items with
// equal keys get an element each.
export function list(parent, items, keyOf, make, fill) {
  const known = new Map([...parent.children].filter((each) => each.dataset.key !== undefined).map((each) => [each.dataset.key, each]));
  const times = new Map();
  let before = null;
  for (const item of items) {
    const alike = times.get(keyOf(item)) ?? 0;
    times.set(keyOf(item), alike + 1);
    const key = alike ? `${keyOf(item)}\u0000${alike}` : keyOf(item);
    let made = known.get(key);
    if (!made) {
      made = make(item);
      made.dataset.key = key;
    }
    known.delete(key);
    const state = JSON.stringify(item);
    if (made.drawnState !== state) {
      fill(made, item);
      made.drawnState = state;
    }
    const next = before ? before.nextElementSibling : parent.firstElementChild;
    if (next !== made) parent.insertBefore(made, next);
    before = made;
  }
  for (const gone of known.values()) gone.remove();
}

// Updates a table: columns are [label, class, cell]; a cell is text or elements, the first heads its row.
export function table(on, columns, rows, keyOf, current) {
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
export function command(line) {
  return line ? element("code", { class: "command" }, line) : null;
}
