// The frame: who is signed in, which page is shown, and the stream.
import { el, link, note, svg } from './dom.js';
import { t } from './texts.js';
import { call, enterReplay, installation, isSignedIn, onSignedOut, revoke, session } from './api.js';
import { showSignIn } from './sign_in.js';
import { fleet } from './fleet_data.js';
import { follow } from './stream.js';
import { overview } from './pages/overview.js';
import { fleetPage } from './pages/fleet.js';
import { hostPage } from './pages/host.js';
import { why } from './pages/why.js';
import { capacity } from './pages/capacity.js';
import { builds } from './pages/builds.js';
import { servers } from './pages/servers.js';
import { cells } from './pages/cells.js';
import { timePage } from './pages/time.js';
import { trace } from './pages/trace.js';

// Name, what it shows, who it is for, and whether it is in the list of pages.
const PAGES = [
  { name: 'overview', show: overview, may: (may) => may.fleet },
  { name: 'fleet', show: fleetPage, may: (may) => may.fleet },
  { name: 'why', show: why, may: (may) => may.destinations },
  { name: 'capacity', show: capacity, may: (may) => may.fleet },
  { name: 'builds', show: builds, may: (may) => may.all_servers },
  { name: 'cells', show: cells, may: (may) => may.status },
  { name: 'time', show: timePage, may: (may) => may.past },
  { name: 'trace', show: trace, may: (may) => may.fleet || may.replay },
  { name: 'servers', show: servers, may: (may) => !may.fleet && !may.replay },
  { name: 'host', show: hostPage, may: (may) => may.fleet, isHidden: true },
];

const main = el('main', { id: 'main' });
let leave = () => {};
let stopStream = null;
let shownPage = '';

// The page, its part and its query that the fragment names.
function address() {
  const [path, query = ''] = location.hash.replace(/^#\/?/, '').split('?');
  const [name = '', part = ''] = path.split('/');
  return { name, part: decodeURIComponent(part), query: Object.fromEntries(new URLSearchParams(query)) };
}

function header() {
  const pages = PAGES.filter((page) => !page.isHidden && page.may(session.may));
  const { name } = address();
  return el('header', {},
    el('a', { class: 'brand', href: link(pages[0]?.name ?? '') }, el('img', { src: '/ui/icon.svg', alt: '' }), t('brand')),
    el('nav', { 'aria-label': t('pages') }, pages.map((page) => el('a', { href: link(page.name), 'aria-current': page.name === name ? 'page' : undefined }, t(page.name)))),
    !installation.replay && el('div', { class: 'who' }, liveState, el('span', { id: 'who' }, session.label), el('button', { type: 'button', class: 'link', id: 'sign-out', onclick: revoke }, t('signOut'))));
}

const liveState = el('span', { class: 'live', role: 'status', id: 'live' });

function showState(state) {
  if (liveState.dataset.state === state) return;
  liveState.dataset.state = state;
  if (state === 'none') return liveState.replaceChildren();
  const text = { live: 'stateLive', broken: 'stateBroken', connecting: 'stateConnecting' }[state];
  const colour = { live: 'good', broken: 'bad', connecting: 'warn' }[state];
  liveState.replaceChildren(svg('svg', { viewBox: '0 0 10 10', 'aria-hidden': 'true', class: colour }, svg('circle', { cx: 5, cy: 5, r: 5, fill: 'currentColor' })), t(text));
}

function show() {
  if (!isSignedIn()) return;
  const { name, part, query } = address();
  const page = PAGES.find((candidate) => candidate.name === name);
  if (!page || !page.may(session.may)) {
    const start = PAGES.find((candidate) => candidate.may(session.may));
    if (name === '' || page) return location.replace(link(start.name));
    main.replaceChildren(note(t('unknownPage'), 'warn'));
    return;
  }
  document.title = `${page.isHidden ? part : t(name)} · ${t('brand')}`;
  const frame = header();
  document.body.querySelector('header').replaceWith(frame);
  leave();
  leave = page.show(main, query, part) ?? (() => {});
  // A new page begins at its heading, or at the field where one begins; a control of the same page keeps the focus.
  if (shownPage !== name && shownPage !== '') (main.querySelector('[autofocus]') ?? main.querySelector('h1'))?.focus();
  shownPage = name;
}

function enterPage() {
  document.body.replaceChildren(el('a', { class: 'skip', href: '#main', onclick: (event) => { event.preventDefault(); main.querySelector('h1')?.focus(); } }, t('skip')), el('header'), main);
  if (session.may.fleet) {
    showState('connecting');
    stopStream = follow(fleet, showState);
  } else {
    showState('none');
  }
  shownPage = '';
  show();
}

function askToSignIn(why) {
  leave();
  leave = () => {};
  stopStream?.();
  stopStream = null;
  fleet.forget();
  main.replaceChildren();
  const place = el('main', {});
  document.body.replaceChildren(place);
  document.title = `${t('signIn')} · ${t('brand')}`;
  showSignIn(place, why, enterPage);
}

onSignedOut(askToSignIn);
addEventListener('hashchange', show);
try {
  Object.assign(installation, await call('installation'));
  if (installation.replay) {
    enterReplay();
    enterPage();
  } else {
    askToSignIn();
  }
} catch (error) {
  document.body.replaceChildren(note(t('failed', { why: error.message }), 'bad'));
}
