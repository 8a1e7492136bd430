// A dashboard drawn by Grafana's own components, without Grafana: ?board=UID&theme=dark|light.
import { createTheme, dateTime, ThemeContext } from '@grafana/data';
import { BigValue, GlobalStyles, PanelChrome, Table, TimeSeries } from '@grafana/ui';
import React from 'react';
import { createRoot } from 'react-dom/client';
import * as data from './data';

const CELL = 30;
const GAP = 8;
const EDGE = 16;
const PHONE = 769; // below it Grafana puts one panel under the other
const query = new URLSearchParams(location.search);
const theme = createTheme({ colors: { mode: query.get('theme') === 'light' ? 'light' : 'dark' } });

function Nothing({ panel, width, height }) {
  const middle = { display: 'flex', alignItems: 'center', justifyContent: 'center' };
  const color = theme.colors.text.secondary;
  return <div style={{ width, height, ...middle, color }}>{panel.fieldConfig.defaults.noValue}</div>;
}

function Graph({ panel, answers, range, width, height }) {
  const frames = data.lines(panel, answers, theme);
  if (!frames.length) return <Nothing {...{ panel, width, height }} />;
  const legend = { ...panel.options.legend, calcs: [] };
  const size = { width, height, timeRange: range, timeZone: 'utc', structureRev: 1 };
  return <TimeSeries frames={frames} legend={legend} options={{}} {...size} />;
}

function Figures({ panel, answers, width, height }) {
  const values = data.figures(panel, answers, theme);
  const across = width > height;
  const part = (whole) => (whole - GAP * (values.length - 1)) / values.length;
  const size = across ? { width: part(width), height } : { width, height: part(height) };
  return (
    <div style={{ display: 'flex', flexDirection: across ? 'row' : 'column', gap: GAP }}>
      {values.map((value) => (
        <BigValue key={value.title} value={value} theme={theme} {...panel.options} {...size} />
      ))}
    </div>
  );
}

function Rows({ panel, answers, width, height }) {
  const frame = data.table(panel, answers, theme);
  if (!frame.length) return <Nothing {...{ panel, width, height }} />;
  return <Table data={frame} width={width} height={height} />;
}

const KINDS = { timeseries: Graph, stat: Figures, table: Rows };

/** Where each panel stands, as Grafana's grid has it. */
function places(panels, width) {
  const unit = (width + GAP) / 24;
  const tall = (cells) => cells * (CELL + GAP) - GAP;
  if (window.innerWidth >= PHONE) {
    return panels.map(({ gridPos: { x, y, w, h } }) => {
      return { left: x * unit, top: y * (CELL + GAP), width: w * unit - GAP, height: tall(h) };
    });
  }
  let next = 0;
  return panels.map(({ gridPos: { h } }) => {
    const top = next;
    next += tall(h) + GAP;
    return { left: 0, top, width, height: tall(h) };
  });
}

function Panel({ panel, answers, range, place }) {
  const style = { position: 'absolute', ...place };
  if (panel.type === 'row') {
    return <div style={{ ...style, lineHeight: `${CELL}px` }}>⌄ {panel.title}</div>;
  }
  const Kind = KINDS[panel.type];
  const { width, height } = place;
  return (
    <div style={style}>
      <PanelChrome title={panel.title} description={panel.description} {...{ width, height }}>
        {(w, h) => <Kind {...{ panel, answers, range }} width={w} height={h} />}
      </PanelChrome>
    </div>
  );
}

function Page({ board, told }) {
  const [from, to] = [told.start, told.end].map((at) => dateTime(at * 1000));
  const range = { from, to, raw: { from, to } };
  const stand = places(board.panels, window.innerWidth - 2 * EDGE);
  const bottom = Math.max(...stand.map(({ top, height }) => top + height));
  const { background, text } = theme.colors;
  return (
    <div style={{ background: background.canvas, color: text.primary, padding: EDGE }}>
      <div style={{ fontSize: 18, marginBottom: GAP }}>{board.title}</div>
      <div style={{ position: 'relative', height: bottom }}>
        {board.panels.map((panel, index) => {
          const answers = told.panels[panel.id];
          return <Panel key={panel.id} place={stand[index]} {...{ panel, answers, range }} />;
        })}
      </div>
    </div>
  );
}

const told = await fetch(`${query.get('board')}.json`).then((answer) => answer.json());
createRoot(document.getElementById('root')).render(
  <ThemeContext.Provider value={theme}>
    <GlobalStyles />
    <Page board={told.board} told={told} />
  </ThemeContext.Provider>,
);
