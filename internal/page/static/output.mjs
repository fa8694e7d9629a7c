// The output of the open job: a terminal or a log, with a search and a way back to its end.

import { html, Component } from '/vendor/preact.mjs';
import { attach, detach, state, typeKeys } from '/live.mjs';
import { isLive, size } from '/format.mjs';
import { Log } from '/log.mjs';
import { Screen } from '/terminal.mjs';

// Output is made again when a job that was queued gets its terminal: its key is keyOf(job).
export const keyOf = job => `${job.id} ${job.rows ? 'terminal' : 'log'}`;

export class Output extends Component {
  state = { follow: true, found: '' };

  componentDidMount() {
    const { job } = this.props, following = follow => this.setState({ follow });
    // One leaves the terminal to the first control of the job.
    const type = keys => typeKeys(job.id, keys), leave = () => document.querySelector('[data-cancel]')?.focus();
    this.view = job.rows ? new Screen(this.frame, job, following, type, leave) : new Log(this.frame, job, following);
    attach(this.view);
  }

  componentWillUnmount() {
    detach(this.view);
    this.view.close();
  }

  find(event, back) {
    this.setState({ found: this.view.find(this.field.value, back) });
    event.preventDefault();
  }

  render({ job }, { follow, found }) {
    return html`
      <section class="output" aria-label="output">
        <div class="tools">
          <input type="search" placeholder="search the output" aria-label="search the output" data-search ref=${e => { this.field = e; }}
            onInput=${e => this.find(e)} onKeyDown=${e => { if (e.key === 'Enter') this.find(e, e.shiftKey); }} />
          <button aria-label="previous place" title="Shift+Enter" onClick=${e => this.find(e, true)}>↑</button>
          <button aria-label="next place" title="Enter" onClick=${e => this.find(e)}>↓</button>
          <small role="status">${found}</small>
          <span class="space"></span>
          ${state.skipped > 0 && html`<small class="note">${skippedText(job)}</small>`}
          ${job.rows && isLive(job) && html`<small class="note hint">Ctrl+. leaves the terminal</small>`}
          <a class="button" href=${`/api/jobs/${encodeURIComponent(job.id)}/output`} download aria-label="download the output">Download</a>
        </div>
        <div id="output" tabindex="0" role="log" aria-live="off" aria-label="output of the job" ref=${e => { this.frame = e; }}></div>
        ${!follow && html`<button class="to-end" onClick=${() => this.view.toEnd()}>↓ to the end</button>`}
      </section>`;
  }
}

// skippedText says how many bytes are not shown. What the log itself has dropped is in no download.
function skippedText(job) {
  const dropped = job.output?.dropped ?? 0;
  const text = `${size(state.skipped)} not shown`;
  return dropped ? `${text}; ${size(dropped)} were dropped` : `${text}: in the download`;
}
