// Elements. Texts become text nodes, never markup.
import { t, percent } from './texts.js';

const SVG = 'http://www.w3.org/2000/svg';

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === 'function') element.addEventListener(name.slice(2), value);
    else if (name === 'value') element.value = value;
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== undefined && child !== null && child !== false));
  return element;
}

export const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
export const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

// The address of a page: `#/name/part?key=value`.
export function link(page, query = {}, part) {
  const pairs = Object.entries(query).filter(([, value]) => value !== '' && value !== undefined && value !== null);
  const text = new URLSearchParams(pairs).toString();
  return `#/${page}${part ? `/${encodeURIComponent(part)}` : ''}${text ? `?${text}` : ''}`;
}

export const panel = (title, ...children) => el('section', { class: 'panel' }, el('h2', {}, title), ...children);
export const title = (text, ...more) => el('div', { class: 'title' }, el('h1', { tabindex: '-1' }, text), ...more);
export const note = (text, kind = '') => el('div', { class: `note ${kind}`, role: kind === 'bad' ? 'alert' : undefined }, text);
export const figure = (name, value, kind = '', more = '') => el('div', { class: 'figure' }, el('dt', {}, name), el('dd', { class: kind }, value, more && el('small', {}, more)));

// A table. A column is `[heading, value of a row, 'n' for numbers]`.
export function table(caption, columns, rows, empty = t('nothing')) {
  if (rows.length === 0) return el('p', { class: 'faint' }, empty);
  return el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': caption },
    el('table', {},
      el('caption', { class: 'out' }, caption),
      el('thead', {}, el('tr', {}, columns.map(([heading, , kind]) => el('th', { scope: 'col', class: kind }, heading)))),
      el('tbody', {}, rows.map((row) => el('tr', {}, columns.map(([, value, kind]) => el('td', { class: kind }, value(row))))))));
}

// A bar with its share, and a mark where what physically exists ends.
export function meter(share, mark) {
  const width = Math.max(0, Math.min(1, share)) * 100;
  return svg('svg', { class: 'meter', viewBox: '0 0 100 10', preserveAspectRatio: 'none', role: 'img', 'aria-label': percent(share) },
    svg('rect', { class: 'under', width: 100, height: 10 }),
    svg('rect', { class: share > 0.9 ? 'over' : 'fill', width, height: 10 }),
    Number.isFinite(mark) && mark < 1 && svg('rect', { class: 'tick', x: Math.max(0, mark * 100 - 0.4), width: 0.8, height: 10 }));
}

// A bar with its share in figures beside it.
export const share = (part, mark) => el('span', { class: 'share' }, meter(part, mark), el('span', {}, percent(part)));

export const dot = (name) => svg('svg', { viewBox: '0 0 10 10', 'aria-hidden': 'true' }, svg('rect', { class: name, width: 10, height: 10, rx: 2 }));

export function pairs(...entries) {
  return el('dl', { class: 'pairs' }, entries.filter(Boolean).map(([name, value]) => [el('dt', {}, name), el('dd', {}, value ?? '–')]));
}

export function select(label, value, options, onchange) {
  return el('label', {}, label, el('select', { onchange: (event) => onchange(event.target.value) },
    options.map(([key, text]) => el('option', { value: key, selected: key === value }, text))));
}

// A function that calls `work` so often at most, and once more when calls came in between.
export function atMost(ms, work) {
  let timer = null;
  let last = 0;
  const call = () => {
    timer = null;
    last = performance.now();
    work();
  };
  const request = () => {
    timer ??= setTimeout(call, Math.max(0, last + ms - performance.now()));
  };
  request.end = () => clearTimeout(timer);
  return request;
}

// A line over time: points are `[x, y]` with y from 0 to 1.
export function chart(points, label) {
  const [first, last] = [points[0]?.[0] ?? 0, points.at(-1)?.[0] ?? 1];
  const at = ([x, y]) => `${(((x - first) / Math.max(1, last - first)) * 100).toFixed(2)},${(40 - Math.min(1, y) * 38).toFixed(2)}`;
  return svg('svg', { class: 'chart', viewBox: '0 0 100 40', preserveAspectRatio: 'none', role: 'img', 'aria-label': label },
    [2, 21, 40].map((y) => svg('line', { class: 'axis', x1: 0, x2: 100, y1: y, y2: y })),
    svg('polyline', { class: 'line', points: points.map(at).join(' ') }));
}

// Several lines over time: lists of points `[x, y]`, all from 0 to 1. The pairs are what stands at the
// ends of the axes. The lines differ by their dashes, too.
export function plot(lines, label, [from, to], [top, bottom]) {
  const at = ([x, y]) => `${(x * 100).toFixed(2)},${(40 - Math.max(0, Math.min(1, y)) * 40).toFixed(2)}`;
  return el('div', { class: 'axes' },
    el('div', { class: 'ends', 'aria-hidden': 'true' }, el('span', {}, top), el('span', {}, bottom)),
    svg('svg', { class: 'chart plot', viewBox: '0 0 100 40', preserveAspectRatio: 'none', role: 'img', 'aria-label': label },
      [0, 10, 20, 30, 40].map((y) => svg('line', { class: 'axis', x1: 0, x2: 100, y1: y, y2: y })),
      lines.map((points, index) => svg('polyline', { class: `line l${index % 5}`, points: points.map(at).join(' ') }))),
    el('div', { class: 'ends', 'aria-hidden': 'true' }, el('span', {}, from), el('span', {}, to)));
}

// The piece of a line of `plot` that stands for it in a legend.
export const swatch = (index) => svg('svg', { class: 'swatch', viewBox: '0 0 28 8', 'aria-hidden': 'true' }, svg('line', { class: `line l${index % 5}`, x1: 0, x2: 28, y1: 4, y2: 4 }));
