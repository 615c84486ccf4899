// Trace: how far a replay is, and how it ended. The replay's own program serves this page and tells what it shows; on the
// page of an installation this only says how to begin one.
import { el, figure, note, pairs, panel, plot, share, swatch, table, title } from '../dom.js';
import { amount, duration, fine, percent, t, whole } from '../texts.js';
import { call, installation } from '../api.js';

const COMMAND = 'placewright replay --nodes nodes.csv --tasks tasks.csv --page';
const LOOK_MS = 1000;
const TABLE_ROWS_MAX = 20;

const seconds = (number) => (number === 0 ? t('seconds', { number }) : duration(number * 1000));

const partOf = (number, all) => (all > 0 ? `${whole(number)} (${percent(number / all)})` : whole(number));

// So many samples at most, the last one among them.
function someOf(samples) {
  const step = Math.max(1, Math.ceil(samples.length / TABLE_ROWS_MAX));
  return samples.filter((_, index) => (samples.length - 1 - index) % step === 0);
}

// Lines over time with their legend, and the same as a table. The table stays what it is when its rows change, so that it
// keeps the focus and how far it is scrolled.
function picture(heading, id) {
  const [legend, lines, rows] = [el('ul', { class: 'legend' }), el('div', {}), el('div', {})];
  const section = el('section', { class: 'panel', id, hidden: true }, el('h2', {}, heading), legend, lines, el('details', {}, el('summary', {}, t('table')), rows));
  // `names`: of the lines; `values`: of a sample, for each line, from 0 to 1; `texts`: the same in words.
  const show = (samples, names, values, texts, top) => {
    section.hidden = samples.length === 0;
    if (section.hidden) return;
    const last = samples.at(-1);
    const end = Math.max(last[0], 0.001);
    const now = names.map((name, index) => `${name}: ${texts(last)[index]}`);
    const points = names.map((_, index) => samples.map((sample) => [sample[0] / end, values(sample)[index]]));
    legend.replaceChildren(...now.map((text, index) => el('li', {}, swatch(index), text)));
    lines.replaceChildren(plot(points, `${heading}. ${now.join(', ')}`, [seconds(0), seconds(end)], top));
    const made = table(heading, [[t('traceAfter'), (sample) => seconds(sample[0]), 'n'], ...names.map((name, index) => [name, (sample) => texts(sample)[index], 'n'])], someOf(samples));
    const [before, after] = [rows.querySelector('tbody'), made.querySelector('tbody')];
    if (before && after) before.replaceWith(after);
    else rows.replaceChildren(made);
  };
  return { section, show };
}

function stateText({ state, result }) {
  if (state !== 'ended') return t(state === 'running' ? 'traceRunning' : 'traceWaiting');
  if (result.is_stopped) return t('traceStopped');
  return result.unsettled > 0 ? t('traceOtherwise', { number: whole(result.unsettled) }) : t('traceEnded');
}

function figuresOf({ trace, progress }) {
  const { requested, building, active, refused, lost, deleted } = progress;
  return [
    figure(t('traceRequested'), whole(requested), '', t('traceOf', { number: whole(trace.tasks) })),
    figure(t('tracePlaced'), whole(active), '', percent(active / trace.tasks)),
    figure(t('traceRefused'), whole(refused), '', percent(refused / trace.tasks)),
    figure(t('building'), whole(building)),
    lost > 0 && figure(t('traceLost'), whole(lost), 'bad'),
    trace.deletes && figure(t('traceDeleted'), whole(deleted)),
    figure(t('traceElapsed'), seconds(progress.seconds), '', trace.speed ? t('traceInTrace', { time: seconds(progress.seconds * trace.speed) }) : ''),
    figure(t('traceRate'), fine(progress.ended_per_second)),
  ].filter(Boolean);
}

function whatOf({ trace, progress }) {
  const ended = progress ? progress.active + progress.refused + progress.lost : 0;
  return pairs([t('traceTasksFile'), trace.tasks_file], [t('traceNodesFile'), trace.nodes_file], [t('traceTasks'), whole(trace.tasks)], [t('hosts'), whole(trace.hosts)],
    [t('traceSpeed'), trace.speed ? t('traceTimes', { number: fine(trace.speed) }) : t('traceAtOnce')],
    [t('traceDone'), partOf(ended, trace.tasks)]);
}

function resultOf({ trace, result }) {
  const { retries, reasons, other_reasons: others } = result;
  const part = (number) => partOf(number, trace.tasks);
  const rows = others > 0 ? [...reasons, [t('traceOthers'), others]] : reasons;
  return [
    panel(t('result'), pairs([t('took'), seconds(result.seconds)], [t('tracePlaced'), part(result.placed)], [t('traceRefused'), part(result.refused)],
      result.unsettled > 0 && [t('traceLost'), part(result.unsettled)], trace.deletes && [t('traceDeleted'), part(result.deleted)],
      [t('traceDecisions'), fine(result.decisions_per_second)], [t('traceBoots'), fine(result.boots_per_second)],
      [t('traceLatency'), t('traceLatencies', { p50: duration(result.latency_p50_ms), p99: duration(result.latency_p99_ms), max: duration(result.latency_max_ms) })],
      retries && [t('traceRetries'), t('traceOfServers', { number: whole(retries.builds), servers: whole(retries.servers) })])),
    panel(t('traceAllocated'), table(t('traceAllocated'), [
      [t('class'), (row) => row.class], [t('used'), (row) => amount(row.class, row.used), 'n'], [t('total'), (row) => amount(row.class, row.total), 'n'],
      [t('traceAtEnd'), (row) => share(row.total > 0 ? row.used / row.total : 0), 'n'], [t('traceHighest'), (row) => percent(row.total > 0 ? row.used_max / row.total : 0), 'n'],
    ], result.allocated)),
    panel(t('traceReasons'), table(t('traceReasons'), [[t('traceTasks'), ([, number]) => whole(number), 'n'], [t('reason'), ([reason]) => reason, 'long']], rows, t('traceNoReasons'))),
  ];
}

function howToBegin(main) {
  main.replaceChildren(title(t('trace')), panel(t('traceBegin'), el('p', {}, t('traceServed')), el('p', {}, el('code', {}, COMMAND))));
}

export function trace(main) {
  if (!installation.replay) return howToBegin(main);
  const status = el('p', { role: 'status', id: 'trace-state' }, t('loading'));
  const [problem, what] = [el('div', { 'aria-live': 'polite' }), el('div', {})];
  const figures = el('dl', { class: 'figures', 'aria-label': t('traceProgress'), id: 'trace-figures', hidden: true });
  const result = el('div', { class: 'stack', id: 'trace-result' });
  const [fill, tasks] = [picture(t('traceFill'), 'trace-fill'), picture(t('traceCounts'), 'trace-tasks')];
  main.replaceChildren(title(t('trace'), status), problem, figures,
    el('div', { class: 'grid' }, el('div', { class: 'stack' }, fill.section, tasks.section), el('div', { class: 'stack' }, result, panel(t('traceWhat'), what))));
  const draw = (told) => {
    const { trace: of, progress, classes, samples } = told;
    const text = stateText(told);
    // What did not change is not read out again.
    if (status.textContent !== text) status.replaceChildren(text);
    what.replaceChildren(whatOf(told));
    figures.hidden = progress === null;
    if (progress) figures.replaceChildren(...figuresOf(told));
    const shares = ([, , used]) => classes.map(({ total }, index) => (total > 0 ? used[index] / total : 0));
    fill.show(samples, classes.map(({ name }) => name), shares, (sample) => shares(sample).map(percent), [percent(1), percent(0)]);
    const counts = [t('tracePlaced'), t('traceRefused'), t('building'), t('traceDeleted')];
    tasks.show(samples, counts, ([, numbers]) => counts.map((_, index) => numbers[index] / Math.max(1, of.tasks)), ([, numbers]) => numbers.map(whole), [whole(of.tasks), whole(0)]);
    if (told.result) result.replaceChildren(...resultOf(told));
  };
  let timer = null;
  let isLeft = false;
  const look = async () => {
    let isOver = false;
    try {
      const told = await call('replay');
      if (isLeft) return;
      isOver = told.state === 'ended';
      problem.replaceChildren();
      draw(told);
    } catch (error) {
      // The picture stays what it was.
      if (!isLeft && problem.childElementCount === 0) problem.replaceChildren(note(t('traceGone', { why: error.message }), 'warn'));
    }
    if (!isLeft && !isOver) timer = setTimeout(look, LOOK_MS);
  };
  look();
  return () => {
    isLeft = true;
    clearTimeout(timer);
  };
}
