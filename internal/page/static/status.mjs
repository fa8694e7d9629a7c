// The status of a job and the time that it takes, which counts while it runs.

import { html, Component } from '/vendor/preact.mjs';
import { lostAt } from '/live.mjs';
import { asks, isLive, short, span } from '/format.mjs';

// Status shows the status with its reason. For a job that waits, the reason is what it asks.
export function Status({ job }) {
  const prompt = job.question?.prompt, waiting = prompt ? `waiting: ${prompt}` : 'waiting for input';
  return html`<span class="status" data-status=${job.status}>${short(asks(job) ? waiting : job.status_text || job.status, 200)}</span>`;
}

// placeText names the place of a job, if it is not here.
export const placeText = ({ place, where }) => place && where ? `${place} (${where})` : place;

// awayText says what is wrong with the link to the place of a job, or what the job waits for there.
export const awayText = ({ link, queued }) => link ? `Link: ${link}` : queued && `Queued: ${queued}`;

export class Elapsed extends Component {
  componentDidMount() { this.keep(); }
  componentDidUpdate() { this.keep(); }
  componentWillUnmount() { this.stop(); }

  keep() {
    const { job } = this.props;
    if (isLive(job) && job.started && !lostAt(job)) this.timer ??= setInterval(() => this.setState({}), 1000);
    else this.stop();
  }

  stop() {
    clearInterval(this.timer);
    this.timer = undefined;
  }

  render({ job }) {
    if (!job.started || !isLive(job) && !job.ended) return null; // how long it ran can be unknown
    const end = job.ended ? Date.parse(job.ended) : lostAt(job) || Date.now();
    return html`<time class="elapsed">${span(Math.max(0, end - Date.parse(job.started)) / 1000, Boolean(job.ended))}</time>`;
  }
}
