// A session: its variables, and its jobs in order with code, output and figures, like a notebook that
// writes itself.

import { html, Component } from '/vendor/preact.mjs';
import { attach, detach, get, open, state } from '/live.mjs';
import { count, isLive, moment, size } from '/format.mjs';
import { Answer } from '/answer.mjs';
import { Follower } from '/follow.mjs';
import { codeOf, Server } from '/job.mjs';
import { jobPath } from '/list.mjs';
import { Log } from '/log.mjs';
import { Elapsed, Status } from '/status.mjs';

const step = 20; // jobs that are shown at once

export class Session extends Component {
  first = ''; // the id of the first job that is shown
  state = { known: null, why: '', shown: step, follow: true };

  componentDidMount() {
    this.end = new Follower(this.frame, this.frame.firstChild, follow => this.setState({ follow }));
    this.refresh();
  }
  // A new cell is lower than the one that made room for it, until it has its output. The end is followed at once,
  // so that this does not look like a scroll up.
  componentDidUpdate() {
    this.end.resized();
    this.refresh();
  }

  componentWillUnmount() {
    this.end.close();
    open('');
  }

  jobs() {
    const { name, server } = this.props;
    return [...state.jobs.values()].filter(job => job.session === name && (job.server ?? '') === server).sort((a, b) => a.id < b.id ? -1 : 1);
  }

  // cells returns the jobs that are shown. While one reads further up, none of them makes room for a new one.
  cells(jobs) {
    const { shown, follow } = this.state;
    const cells = follow ? jobs.slice(-shown) : jobs.filter(job => job.id >= this.first);
    this.first = cells[0]?.id ?? this.first; // the list is empty while the connection comes back
    return cells;
  }

  // earlier shows more jobs above those that are shown.
  earlier(jobs, cells) {
    this.first = jobs.at(-cells.length - step)?.id ?? '';
    this.setState(({ shown }) => ({ shown: shown + step }));
  }

  // refresh opens the job that runs, and reads the variables after each change of a job.
  refresh() {
    const jobs = this.jobs(), live = jobs.find(job => isLive(job) && job.started)?.id ?? '';
    if (state.open !== live) open(live);
    const version = jobs.map(job => job.id + job.status).join(' ');
    if (version === this.version) return;
    this.version = version;
    this.read();
  }

  // read asks for the variables. A session that has ended, or of a shell, has none.
  async read() {
    const { name, server } = this.props, query = server ? `?server=${encodeURIComponent(server)}` : '';
    try {
      const { sessions } = await get(`/api/sessions${query}`);
      const known = sessions.some(s => s.name === name) ? await get(`/api/sessions/${encodeURIComponent(name)}${query}`) : null;
      this.setState({ known, why: '' });
    } catch (e) {
      this.setState({ why: e.message });
    }
  }

  render({ name, server }, { known, why, follow }) {
    const jobs = this.jobs(), cells = this.cells(jobs);
    return html`
      <header class="job"><a class="back" href="/">‹ jobs</a><h1>session ${name}</h1><${Server} id=${server} /></header>
      ${(why || known) && html`
        <div class="variables" tabindex="0" role="region" aria-label="variables">
          ${why && html`<p class="note">${why}</p>`}
          ${known && html`<${Variables} known=${known} />`}
        </div>`}
      <section class="output" aria-label="jobs">
        <div class="notebook" tabindex="0" role="region" aria-label=${`session ${name}`} ref=${e => { this.frame = e; }}>
          <div>
            ${jobs.length > cells.length && html`<button onClick=${() => this.earlier(jobs, cells)}>${count(jobs.length - cells.length, 'earlier job')}</button>`}
            ${cells.map(job => html`<${Cell} key=${job.id} job=${job} />`)}
          </div>
        </div>
        ${!follow && html`<button class="to-end" onClick=${() => this.end.toEnd()}>↓ to the end</button>`}
      </section>`;
  }
}

function Variables({ known }) {
  const { variables: list, total, busy, lost, modules = [], functions = [], classes = [] } = known;
  const others = [...modules, ...functions, ...classes], left = total - list.length - others.length;
  const about = [!list.length && 'No variables.', lost || busy && 'A job runs: only the names are known.', left > 0 && `${left} are not listed.`];
  const names = html`<p class="names">${(busy ? list.map(v => v.name) : others).join(', ')}</p>`;
  return html`
    ${about.some(Boolean) && html`<p class="note">${about.filter(Boolean).join(' ')}</p>`}
    ${busy ? names : list.length > 0 && html`
      <table>
        <thead><tr><th scope="col">name</th><th scope="col">type</th><th scope="col">size</th><th scope="col">value</th></tr></thead>
        <tbody>${list.map(v => html`<tr key=${v.name}><th scope="row">${v.name}</th><td>${v.type}</td><td>${v.size}</td><td>${v.value}</td></tr>`)}</tbody>
      </table>`}
    ${others.length > 0 && html`<details><summary>${others.length} more: modules, functions and classes</summary>${names}</details>`}`;
}

// A Cell is one job. The output of the job that runs is live, that of others is read once.
class Cell extends Component {
  state = { document: null };

  componentDidMount() { this.show(); }
  componentDidUpdate({ job }) { if (job.status !== this.props.job.status) this.show(); }
  componentWillUnmount() { this.hide(); }

  show() {
    const { job } = this.props;
    if (!isLive(job)) this.read(); else if (job.started && !this.view) attach(this.begin(job));
  }

  // begin puts an empty view in the place of the one before.
  begin(job) {
    this.hide();
    this.view = new Log(this.frame, job);
    return this.view;
  }

  hide() {
    if (!this.view) return;
    detach(this.view);
    this.view.close();
  }

  async read() {
    const path = `/api/jobs/${encodeURIComponent(this.props.job.id)}`;
    try {
      const document = await get(path), { streams = [] } = document, from = streams[0]?.cursor ?? 0;
      const bytes = new Uint8Array(await (await fetch(`${path}/output?cursor=${from}`)).arrayBuffer());
      if (!this.frame) return; // one has left the session
      const parts = streams.map(s => ({ stream: s.stream, bytes: bytes.subarray(s.cursor - from, s.cursor_end - from) }));
      this.begin(document).write({ skipped: from, parts }, () => {});
      this.setState({ document });
    } catch {
      if (this.frame) this.frame.textContent = 'The output can’t be read.';
    }
  }

  render({ job }, { document }) {
    const whole = document ?? (state.job?.id === job.id ? state.job : job);
    return html`
      <article class="cell" aria-label=${`job of ${moment(job.created)}`} data-cell=${job.id}>
        <div class="line"><a href=${jobPath(job)}>${moment(job.created)}</a> <${Status} job=${job} /><${Elapsed} job=${job} /></div>
        <pre class="code" tabindex="0" aria-label="code"><bdi>${codeOf(whole)}</bdi></pre>
        <div class="cell-output" tabindex="0" role="log" aria-live="off" aria-label="output" ref=${e => { this.frame = e; }}></div>
        <${Answer} job=${whole.question ? whole : job} />
      </article>`;
  }
}
