// Requests to the services of the installation. The token is kept in this module and nowhere else.
import { t } from './texts.js';

let credentials = null; // The headers that say who the caller is.
export const session = { user: null, project: null, roles: [], may: {}, label: '' };
export const installation = { sign_in: 'identity', services: [], replay: false };
const listeners = new Set();

// Calls back when the caller is not signed in any more.
export const onSignedOut = (listener) => listeners.add(listener);

export class Failure extends Error {
  constructor(status, message, body) {
    super(message);
    this.status = status;
    this.body = body;
  }
}

const first = (object) => (object && typeof object === 'object' ? Object.values(object)[0] : undefined);

function messageOf(body, status) {
  if (Array.isArray(body?.errors)) return body.errors[0]?.detail ?? body.errors[0]?.title;
  return body?.error?.message ?? first(body)?.message ?? `${status}`;
}

export async function send(path, { method = 'GET', body, headers = {}, signal } = {}) {
  const sent = { ...credentials, ...headers };
  if (body !== undefined) sent['Content-Type'] = 'application/json';
  try {
    return await fetch(`/ui/api/${path}`, { method, headers: sent, body: body === undefined ? undefined : JSON.stringify(body), signal, credentials: 'omit', cache: 'no-store' });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Failure(0, t('noConnection'));
  }
}

export async function call(path, options) {
  const response = await send(path, options);
  const text = await response.text();
  let body = text;
  try {
    body = text === '' ? null : JSON.parse(text);
  } catch {
    // It is no JSON: plain text stays as it is.
  }
  if (response.ok) return body;
  if (response.status === 401 && credentials) signedOut(t('expired'));
  const failure = new Failure(response.status, String(messageOf(body, response.status)).slice(0, 2000), body);
  failure.mayRetry = response.headers.has('Retry-After');
  throw failure;
}

const TRIES_MAX = 10;
const RETRY_MS = 1000;

// Does something again while the service says that it is busy, a few times.
async function patiently(work) {
  for (let tries = 1; ; tries += 1) {
    try {
      return await work();
    } catch (error) {
      if (!error.mayRetry || tries === TRIES_MAX) throw error;
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }
}

export const compute = (path, options = {}) => call(`compute/v2.1${path}`, { ...options, headers: { 'OpenStack-API-Version': 'compute 2.96' } });
export const placement = (path, options = {}) => call(`placement${path}`, { ...options, headers: { 'OpenStack-API-Version': 'placement 1.39' } });
export const scheduler = (path, options = {}) => call(`scheduler/v1${path}`, options);
// How many more of a request fit. Few such counts are made at a time.
export const howManyFit = (request) => patiently(() => scheduler('/capacity', { method: 'POST', body: { request } }));
export const has = (service) => installation.services.includes(service);

export function signedOut(why) {
  credentials = null;
  listeners.forEach((listener) => listener(why));
}

// Takes over who the caller is, if the service accepts that.
export async function enter(headers, label) {
  credentials = headers;
  try {
    Object.assign(session, await call('session'), { label });
  } catch (error) {
    credentials = null;
    throw error;
  }
}

// The program of a replay knows no users: whoever reaches it sees its one page.
export function enterReplay() {
  credentials = {};
  session.may = { replay: true };
}

export const isSignedIn = () => credentials !== null;

export async function revoke() {
  if (installation.sign_in === 'identity' && credentials) {
    const own = { 'X-Subject-Token': credentials['X-Auth-Token'] };
    await call('identity/v3/auth/tokens', { method: 'DELETE', headers: own }).catch(() => {});
  }
  signedOut();
}
