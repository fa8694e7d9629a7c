// The page: the list of jobs beside the job or the session that the address names.

import { html, render } from '/vendor/preact.mjs';
import { connect, open, state, waits, watch } from '/live.mjs';
import { short } from '/format.mjs';
import { Job } from '/job.mjs';
import { List, move, setFilter } from '/list.mjs';
import { Session } from '/session.mjs';

// route returns what the address names: a kind, which is jobs, sessions or nothing, and a name.
function route() {
  const [, kind, name = ''] = location.pathname.split('/');
  return { kind, name: decodeURIComponent(name), server: new URLSearchParams(location.search).get('server') ?? '' };
}

function App() {
  const { kind, name, server } = route();
  return html`
    <div class=${`page ${kind ? 'detail' : ''}`}>
      <${Notice} />
      <${List} current=${kind === 'jobs' ? name : ''} />
      <main tabindex="-1">
        ${kind === 'jobs' && html`<${Job} />`}
        ${kind === 'sessions' && html`<${Session} key=${`${server}/${name}`} name=${name} server=${server} />`}
        ${!kind && html`<p class="empty">Choose a job.<br /><kbd>j</kbd> <kbd>k</kbd> <kbd>Enter</kbd> choose, <kbd>/</kbd> filters, <kbd>Esc</kbd> goes back.</p>`}
      </main>
    </div>`;
}

function Notice() {
  if (state.connection === 'lost') return html`<p class="notice" role="status">disconnected: it comes back by itself</p>`;
  if (state.connection === 'refused') return html`<p class="notice" role="alert">This browser is not logged in. Open the address that <code>async-repl page</code> has printed, with its key: all that is behind the #.</p>`;
  if (state.error) return html`<p class="notice" role="alert">${state.error}</p>`;
  return null;
}

function draw() {
  render(html`<${App} />`, document.getElementById('app'));
  const { kind, name } = route(), waiting = [...state.jobs.values()].filter(waits).length;
  const what = kind === 'jobs' ? state.job?.title : kind === 'sessions' ? `session ${name}` : '';
  document.title = [waiting ? `(${waiting})` : '', what && `${short(what, 60)} ·`, 'async-repl'].filter(Boolean).join(' ');
}

function go(path) {
  history.pushState(null, '', path);
  moved();
}

// moved shows what the address names. Ids of jobs have no case, and the server writes them in capitals.
function moved() {
  const { pathname, search } = location;
  if (/^\/jobs\/[0-9a-z]+$/i.test(pathname)) history.replaceState(null, '', pathname.toUpperCase().replace('JOBS', 'jobs') + search);
  const { kind, name } = route();
  open(kind === 'jobs' ? name : '');
  draw();
}

// Links inside the page change the address without loading the page again.
function clicked(event) {
  const link = event.target.closest?.('a[href]'), plain = !event.metaKey && !event.ctrlKey && !event.shiftKey && event.button === 0;
  if (!link || !plain || link.target || link.hasAttribute('download') || link.origin !== location.origin) return;
  if (!/^\/($|jobs\/|sessions\/)/.test(link.pathname)) return;
  event.preventDefault();
  go(link.pathname + link.search);
}

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const { target, key } = event, typing = /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
  if (key === 'Escape') escape(target);
  else if (typing) return;
  else if (key === 'j') move(1);
  else if (key === 'k') move(-1);
  else if (key === '/') { event.preventDefault(); document.querySelector('[data-filter]')?.focus(); }
}

// escape leaves a field, and else what is open. The filter ends with it.
function escape(target) {
  if (target.matches('[data-filter]')) setFilter({ text: '' });
  if (/^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) target.blur();
  else if (route().kind) {
    const { name } = route();
    go('/');
    move(0, name);
  }
}

// login takes the key that async-repl page has put behind the # of the address. It goes to no log and no
// other page from there.
async function login() {
  const key = location.hash.slice(1);
  if (!key) return;
  history.replaceState(null, '', location.pathname + location.search);
  await fetch('/login', { method: 'POST', body: new URLSearchParams({ token: key }) }).catch(() => {});
}

watch(draw);
addEventListener('popstate', moved);
document.addEventListener('click', clicked);
document.addEventListener('keydown', pressed);
await login();
moved();
connect();
