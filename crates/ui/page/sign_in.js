// The form by which a caller signs in, in each of the ways that an installation may have.
import { el, note } from './dom.js';
import { t } from './texts.js';
import { Failure, enter, installation, send } from './api.js';

const TEXT = { identity: 'signInIdentity', keystone: 'signInKeystone', http_basic: 'signInBasic', noauth2: 'signInNoauth' };

async function issue(identity, scope) {
  const response = await send('identity/v3/auth/tokens', { method: 'POST', body: { auth: { identity, ...(scope && { scope }) } } });
  const body = await response.json().catch(() => null);
  if (response.ok) return [response.headers.get('X-Subject-Token'), body.token];
  if (response.status === 401) throw new Failure(401, t('signInWrong'));
  throw new Failure(response.status, body?.error?.message ?? `${response.status}`);
}

async function projectsOf(token) {
  const response = await send('identity/v3/auth/projects', { headers: { 'X-Auth-Token': token } });
  return response.ok ? (await response.json()).projects : [];
}

async function withProject(token, project) {
  const [scoped, details] = await issue({ methods: ['token'], token: { id: token } }, { project: { id: project.id } });
  await enter({ 'X-Auth-Token': scoped }, `${details.user.name} · ${project.name}`);
}

// Signs in with a password. Returns the projects to choose from if there are several.
async function withPassword(name, password) {
  const user = { name, password, domain: { id: 'default' } };
  const [token] = await issue({ methods: ['password'], password: { user } });
  const projects = await projectsOf(token);
  if (projects.length === 0) throw new Failure(403, t('signInNowhere'));
  if (projects.length === 1) return withProject(token, projects[0]);
  return { token, projects };
}

const base64 = (text) => btoa(String.fromCharCode(...new TextEncoder().encode(text)));

async function submit(fields) {
  switch (installation.sign_in) {
    case 'identity': return withPassword(fields.name, fields.password);
    case 'http_basic': return enter({ Authorization: `Basic ${base64(`${fields.name}:${fields.password}`)}` }, fields.name);
    default: return enter({ 'X-Auth-Token': fields.token }, installation.sign_in === 'noauth2' ? fields.token : t('token'));
  }
}

// Shows the form in `place` and calls back when somebody has signed in.
export function showSignIn(place, why, done) {
  const hasToken = installation.sign_in === 'keystone' || installation.sign_in === 'noauth2';
  const message = el('div', { 'aria-live': 'polite' }, why && note(why, 'warn'));
  const field = (name, label, more) => el('label', {}, label, el('input', { name, required: true, ...more }));
  const fields = hasToken
    ? [field('token', t('token'), { type: installation.sign_in === 'noauth2' ? 'text' : 'password', autocomplete: 'off', value: installation.sign_in === 'noauth2' ? 'admin' : '' })]
    : [field('name', t('name'), { autocomplete: 'username', autocapitalize: 'none' }), field('password', t('password'), { type: 'password', autocomplete: 'current-password' })];
  const button = el('button', { class: 'main', type: 'submit' }, t('signIn'));
  const attempt = async (work) => {
    button.disabled = true;
    try {
      const choice = await work();
      if (choice) choose(choice);
      else done();
    } catch (error) {
      message.replaceChildren(note(error.message, 'bad'));
    } finally {
      button.disabled = false;
    }
  };
  const choose = ({ token, projects }) => {
    const buttons = projects.map((project) => el('button', { type: 'button', onclick: () => attempt(() => withProject(token, project)) }, project.name));
    form.replaceChildren(el('p', {}, t('signInChoose')), ...buttons);
    buttons[0].focus();
  };
  const form = el('form', {
    onsubmit: (event) => {
      event.preventDefault();
      attempt(() => submit(Object.fromEntries(new FormData(form))));
    },
  }, el('p', {}, t(TEXT[installation.sign_in])), fields, button, el('p', { class: 'faint' }, t('tokenKept')));
  place.replaceChildren(el('section', { class: 'panel sign-in' }, el('h1', {}, t('signIn')), message, form));
  form.querySelector('input')?.focus();
}
