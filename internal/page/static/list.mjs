// The list of jobs with its filter: those that wait on top, the newest first.

import { html, Component } from '/vendor/preact.mjs';
import { announce, hasLogin, logOut, serverName, state, waits } from '/live.mjs';
import { count, short } from '/format.mjs';
import { awayText, Elapsed, placeText, Status } from '/status.mjs';

const step = 300; // rows that are shown at once
const filter = { text: '', status: '', session: '', server: '', rows: step };

// setFilter changes the filter, and begins again at the first rows.
export function setFilter(change) {
  Object.assign(filter, { rows: step }, change);
  announce();
}

const newestFirst = (a, b) => a.id < b.id ? 1 : -1; // ids begin with the time
const waitingFirst = (a, b) => waits(b) - waits(a) || newestFirst(a, b);

// matches returns a function that reports whether a job is shown.
function matches() {
  const words = filter.text.toLowerCase().split(/\s+/).filter(Boolean);
  const workspaces = new Map(state.servers.map(s => [s.id, s.workspace]));
  return job => {
    if (filter.status && job.status !== filter.status) return false;
    if (filter.session && job.session !== filter.session) return false;
    if (filter.server && job.server !== filter.server) return false;
    if (!words.length) return true;
    const text = [job.title, job.kind, job.status, job.status_text, job.session, placeText(job), awayText(job), job.question?.prompt, workspaces.get(job.server)].join(' ').toLowerCase();
    return words.every(word => text.includes(word));
  };
}

export const jobPath = job => `/jobs/${encodeURIComponent(job.id)}`;

// A Row has the name of its server if it stands beside those of others.
class Row extends Component {
  shouldComponentUpdate({ job, current, server }) { return job !== this.props.job || current !== this.props.current || server !== this.props.server; }

  render({ job, current, server }) {
    const where = [server?.replace(/\/+$/, '').split('/').at(-1), job.place, job.session || !server && job.kind].filter(Boolean).join(' · ');
    const away = awayText(job);
    return html`
      <li><a class="row" href=${jobPath(job)} data-job=${job.id} data-status=${job.status} aria-current=${current ? 'page' : null}>
        <bdi class="title">${short(job.title)}</bdi><${Elapsed} job=${job} />
        <${Status} job=${job} /><span class="where" title=${[server, placeText(job)].filter(Boolean).join(' · ') || null}>${where}</span>
        ${away && html`<span class="away" title=${away}>${away}</span>`}
      </a></li>`;
  }
}

function Choice({ name, values }) {
  if (values.length < 2 && !filter[name]) return null;
  return html`
    <select aria-label=${`only one ${name}`} value=${filter[name]} onChange=${e => setFilter({ [name]: e.target.value })}>
      <option value="">every ${name}</option>
      ${values.map(([value, text]) => html`<option value=${value} key=${value}>${short(text ?? value, 40)}</option>`)}
    </select>`;
}

// ending returns the end of a name that is too long for a choice. Paths differ there.
const ending = name => name.length > 40 ? '…' + name.slice(-39) : name;

function Filter({ jobs }) {
  const of = name => [...new Set(jobs.map(job => job[name]).filter(Boolean))].sort().map(value => [value, value.replace('_', ' ')]);
  return html`
    <form class="filter" role="search" onSubmit=${e => { e.preventDefault(); move(0); }}>
      <input type="search" placeholder="filter  /" aria-label="filter jobs" data-filter value=${filter.text} onInput=${e => setFilter({ text: e.target.value })} />
      <${Choice} name="status" values=${of('status')} />
      <${Choice} name="session" values=${of('session')} />
      <${Choice} name="server" values=${state.servers.map(s => [s.id, ending(serverName(s))])} />
      ${hasLogin && html`<button type="button" data-logout onClick=${logOut}>Log out</button>`}
    </form>`;
}

// first returns the rows that are shown at first. Each server that has some has as many, so that none hides the
// others.
function first(all) {
  const servers = new Set(all.map(job => job.server)).size;
  const most = Math.ceil(filter.rows / servers), rows = new Map();
  return all.filter(job => {
    rows.set(job.server, (rows.get(job.server) ?? 0) + 1);
    return rows.get(job.server) <= most;
  });
}

// groups returns the rows in groups: those that wait, and then each server's own, if there are several.
function groups(jobs) {
  if (state.servers.length < 2) return [{ key: 'all', jobs }];
  const waiting = jobs.filter(waits), others = jobs.filter(job => !waits(job));
  const names = new Map(state.servers.map(s => [s.id, serverName(s)]));
  return [
    { key: 'waiting', name: 'waiting', jobs: waiting, names },
    ...state.servers.map(s => ({ key: s.id, name: names.get(s.id), lost: s.lost, jobs: others.filter(job => job.server === s.id) })),
  ].filter(group => group.jobs.length || group.lost);
}

// grow shows more rows when one has scrolled near the end.
function grow({ target }) {
  const near = target.scrollHeight - target.scrollTop - target.clientHeight < 600;
  if (near) { filter.rows += step; announce(); }
}

export function List({ current }) {
  const jobs = [...state.jobs.values()];
  const all = jobs.filter(matches()).sort(waitingFirst);
  const shown = first(all);
  return html`
    <nav aria-label="jobs" onScroll=${e => all.length > shown.length && grow(e)}>
      <${Filter} jobs=${jobs} />
      ${groups(shown).map(group => html`
        <section key=${group.key} class=${group.lost ? 'lost' : ''}>
          ${group.name && html`<h2>${group.name}${group.lost && html` <b class="lost-word">disconnected</b>`}</h2>`}
          <ul>${group.jobs.map(job => html`<${Row} key=${job.id} job=${job} current=${job.id === current} server=${group.names?.get(job.server)} />`)}</ul>
        </section>`)}
      ${all.length > shown.length && html`<p class="note">${count(all.length - shown.length, 'more job')}: scroll, or filter</p>`}
      ${state.complete && !all.length && html`<p class="note">${jobs.length ? 'No job matches.' : 'No job yet. What the agent runs appears here.'}</p>`}
    </nav>`;
}

// move gives the focus to the next row, or the previous one. If no row has it, the one of the open job gets it, or
// of the job that was left.
export function move(by, left) {
  const rows = [...document.querySelectorAll('[data-job]')];
  const here = rows.findIndex(row => row === document.activeElement);
  const at = here >= 0 ? here + by : Math.max(0, rows.findIndex(row => row.ariaCurrent || row.dataset.job === left));
  rows[Math.min(rows.length - 1, Math.max(0, at))]?.focus();
}
