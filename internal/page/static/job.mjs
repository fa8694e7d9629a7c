// One job: what it runs, how it stands, its output and its question.

import { html, Component } from '/vendor/preact.mjs';
import { isLost, post, serverName, state } from '/live.mjs';
import { count, isLive, moment, short, size, span } from '/format.mjs';
import { Answer } from '/answer.mjs';
import { keyOf, Output } from '/output.mjs';
import { awayText, Elapsed, placeText, Status } from '/status.mjs';

export function Job() {
  const { job } = state;
  if (state.gone) return html`<p class="empty">There is no job ${short(state.open, 60)}. <a href="/">All jobs</a></p>`;
  if (!job) return null;
  return html`
    <header class="job">
      <h1 class="spoken">${short(job.title)}</h1>
      <a class="back" href="/">‹ jobs</a>
      <pre class="code" tabindex="0" aria-label="code"><bdi>${codeOf(job)}</bdi></pre>
      <div class="line">
        <${Status} job=${job} /><${Elapsed} job=${job} />
        ${job.progress?.percent !== undefined && html`<progress max="100" value=${job.progress.percent} title=${job.progress.text} aria-label="progress"></progress>`}
        ${job.session && html`<a href=${sessionPath(job)}>session ${job.session}</a>`}
        <${Server} id=${job.server} />
        <${Stop} key=${job.id} job=${job} />
      </div>
      ${awayText(job) && html`<p class="away">${awayText(job)}</p>`}
      <${Facts} job=${job} />
    </header>
    <${Output} key=${keyOf(job)} job=${job} />
    <${Answer} key=${`answer ${job.id}`} job=${job} />`;
}

// codeOf returns what a job runs: all of it, or its beginning.
export function codeOf({ code, code_bytes, title }) {
  const text = (code ?? title).replace(/^\s*\n/, '').trimEnd();
  return code_bytes > 16384 ? `${text}\n… ${size(code_bytes)} in all` : text;
}

export function sessionPath({ session, server }) {
  return `/sessions/${encodeURIComponent(session)}${server ? `?server=${encodeURIComponent(server)}` : ''}`;
}

// Server names the server of a job, or of a session, if there are several, and says if it is not connected.
export function Server({ id }) {
  const server = state.servers.find(s => s.id === id);
  if (!server || (state.servers.length < 2 && !server.lost)) return null;
  return html`<span class="server">${serverName(server)}${server.lost && html` <b class="lost-word">disconnected</b>`}</span>`;
}

class Stop extends Component {
  state = { why: '' };

  async stop(force) {
    this.setState({ why: await post(`/api/jobs/${encodeURIComponent(this.props.job.id)}/cancel`, { force }) });
  }

  render({ job }, { why }) {
    const left = job.receipt?.left_running;
    if (!isLive(job) && !left) return null;
    return html`
      <div class="stop">
        ${job.cancelling && html`<small>stopping: ${job.cancelling}</small>`}
        ${why && html`<small class="refusal" role="alert">${why}</small>`}
        <button data-cancel disabled=${isLost(job)} onClick=${() => this.stop(false)}>${left ? 'End what it left' : 'Cancel'}</button>
        <button data-force class="danger" disabled=${isLost(job)} onClick=${() => this.stop(true)}>Kill</button>
      </div>`;
  }
}

// Facts lists what is known of a job. Facts without information are left out.
function Facts({ job }) {
  const r = job.receipt ?? {};
  const facts = [
    ['place', placeText(job)],
    ['input', job.input],
    ['created', !job.started && moment(job.created)],
    ['started', job.started && moment(job.started)],
    ['ended', job.ended && moment(job.ended)],
    // The end of a job whose server was killed is unknown.
    ['last output', !isLive(job) && !job.ended && job.last_output && moment(job.last_output)],
    ['answered', job.answered && `by a ${job.answered.by}, ${moment(job.answered.at)}`],
    ['listens on', job.listening?.map(l => html`<${Port} key=${l.address} listener=${l} />`)],
    ['usage', job.usage && usageText(job.usage)],
    ['reads input', job.reader && `${job.reader.by}: ${job.reader.kind}`],
    ['stopped', job.stopped],
    ['refused', job.denied && denialsText(job)],
    ['exit', r.signal || (r.exit_code > 0 && `status ${r.exit_code}`)],
    ['reason', r.reason || r.detail],
    ['ended by', ['agent', 'person', 'limit', 'shutdown', 'outside or unknown'].includes(r.by) && `${r.by}${r.rungs ? `: ${r.rungs.join(', ')}` : ''}`],
    ['variables', r.variables],
    ['new variables', r.new_variables?.join(', ')],
    ['deleted variables', r.gone_variables?.join(', ')],
    ['new files', r.new_files?.join(', ')],
    ['changed files', r.changed_files?.join(', ')],
    ['left running', processesText(r.left_running)],
    ['hung up', processesText(r.hung_up)],
    ['could not be ended', processesText(r.survivors)],
    ['checkpoint', r.checkpoint],
    ['notes', r.notes?.join(' · ')],
    ['output', job.output?.dropped > 0 && `${size(job.output.dropped)} of ${size(job.output.cursor)} were dropped`],
  ].filter(([, value]) => value && value.length !== 0);
  return html`<dl class="facts">${facts.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

const processesText = list => list?.map(p => `${p.program} (${p.pid})`).join(', ');

function usageText({ cpu_seconds, memory_bytes, processes }) {
  return `${span(cpu_seconds, true)} of CPU, ${size(memory_bytes)}${processes > 1 ? `, ${count(processes, 'process').replace(/s$/, 'es')}` : ''}`;
}

function denialsText(job) {
  const first = job.denied.map(d => `${d.target}${d.program ? ` by ${d.program} (${d.pid})` : ''}${d.times > 1 ? `, ${d.times} times` : ''}`).join(' · ');
  return job.denied_more ? `${first}, and ${job.denied_more} more` : first;
}

// Port links to an address that the job listens on, if this browser can reach it by a name that it
// knows: that of this page, or the machine's own.
function Port({ listener }) {
  const { address, program, pid } = listener;
  const [, host, port] = /^(.*):(\d+)$/.exec(address) ?? [];
  const every = ['0.0.0.0', '[::]', '*', ''].includes(host), own = /^(127\.|\[::1\]|localhost)/.test(host);
  const here = /^(127\.|\[::1\]|localhost)/.test(location.hostname);
  const text = `${address} (${program} ${pid})`;
  if (!port || !(every || (own && here))) return html`<span>${text}</span>`;
  return html`<a href=${`http://${every ? location.hostname : host}:${port}/`} target="_blank" rel="noopener noreferrer">${text}</a>`;
}
