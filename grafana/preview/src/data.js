// From a panel of a dashboard and Prometheus' answers to what Grafana's components draw.
import { FieldType, getDisplayProcessor, toDataFrame } from '@grafana/data';

const figure = (text) => (text === 'NaN' ? null : Number(text));

function legend(format, labels) {
  return format.replace(/\{\{\s*(\w+)\s*\}\}/g, (_, name) => labels[name] ?? '');
}

/** The panel's defaults with the overrides for the field of that name. */
function config(panel, name) {
  const { defaults, overrides = [] } = panel.fieldConfig;
  const made = { ...defaults, custom: { ...defaults.custom } };
  const mine = overrides.filter((each) => each.matcher.options === name);
  for (const { id, value } of mine.flatMap((each) => each.properties)) {
    if (id.startsWith('custom.')) made.custom[id.slice('custom.'.length)] = value;
    else made[id] = value;
  }
  if (made.thresholds) {
    const steps = made.thresholds.steps.map((step) => ({ ...step, value: step.value ?? -Infinity }));
    made.thresholds = { ...made.thresholds, steps };
  }
  return made;
}

function dress(field, index, theme) {
  field.state = { ...field.state, seriesIndex: index };
  field.display = getDisplayProcessor({ field, theme, timeZone: 'utc' });
  return field;
}

/** Every series of a panel: its legend, and [seconds, text] points. */
function series(panel, answers) {
  const found = panel.targets.flatMap((target) =>
    (answers[target.refId] ?? []).map((each) => ({
      name: legend(target.legendFormat, each.metric),
      points: each.values ?? [each.value],
    })),
  );
  return found.sort((one, other) => one.name.localeCompare(other.name));
}

export function lines(panel, answers, theme) {
  return series(panel, answers).map(({ name, points }, index) => {
    const times = points.map(([at]) => at * 1000);
    const values = points.map(([, text]) => figure(text));
    const frame = toDataFrame({
      fields: [
        { name: 'Time', type: FieldType.time, values: times, config: {} },
        { name, type: FieldType.number, values, config: config(panel, name) },
      ],
    });
    const [time, value] = frame.fields;
    value.config.color ??= { mode: 'palette-classic' };
    dress(time, 0, theme);
    dress(value, index, theme).state.displayName = name;
    return frame;
  });
}

/** What each figure of a panel says; one that says that nothing is known where there is none. */
export function figures(panel, answers, theme) {
  const found = series(panel, answers);
  return (found.length ? found : [{ name: '', points: [] }]).map(({ name, points }) => {
    const last = points.length ? figure(points.at(-1)[1]) : null;
    const field = { name, type: FieldType.number, config: config(panel, name), values: [] };
    return { ...dress(field, 0, theme).display(last), title: name };
  });
}

/** A row for each set of labels, as the transformations merge and organize make it. */
export function table(panel, answers, theme) {
  const organize = panel.transformations.find((each) => each.id === 'organize').options;
  const title = (column) => organize.renameByName[column] ?? column;
  const rows = [...merged(panel, answers).values()];
  const places = organize.indexByName;
  const columns = Object.keys(places).sort((one, other) => places[one] - places[other]);
  sort(rows, columns, title, panel.options.sortBy?.[0]);
  const fields = columns.map((column) => {
    const isValue = column.startsWith('Value');
    return {
      name: title(column),
      type: isValue ? FieldType.number : FieldType.string,
      values: rows.map((row) => row[column] ?? (isValue ? null : '')),
      config: config(panel, title(column)),
    };
  });
  const frame = toDataFrame({ fields });
  frame.fields.forEach((field, index) => dress(field, index, theme));
  return frame;
}

function merged(panel, answers) {
  const rows = new Map();
  for (const { refId } of panel.targets) {
    const column = panel.targets.length > 1 ? `Value #${refId}` : 'Value';
    for (const { metric, value } of answers[refId] ?? []) {
      const { __name__: _, ...labels } = metric;
      const key = JSON.stringify(Object.entries(labels).sort());
      if (!rows.has(key)) rows.set(key, labels);
      rows.get(key)[column] = figure(value[1]);
    }
  }
  return rows;
}

function sort(rows, columns, title, by) {
  const column = columns.find((each) => title(each) === by?.displayName);
  const order = (one, other) => (one < other ? -1 : one > other ? 1 : 0);
  rows.sort(
    (one, other) =>
      order(one[column], other[column]) * (by?.desc ? -1 : 1) ||
      order(JSON.stringify(one), JSON.stringify(other)),
  );
}
