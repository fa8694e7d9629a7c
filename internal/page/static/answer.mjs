// The field in which a person answers a job that waits for input.

import { html, Component } from '/vendor/preact.mjs';
import { asks } from '/format.mjs';
import { isLost, post } from '/live.mjs';

export class Answer extends Component {
  state = { why: '' };

  componentDidMount() { this.takeFocus(); }

  componentDidUpdate() {
    const { question } = this.props.job, asked = question && question.kind + question.prompt;
    if (asked !== this.asked) this.takeFocus();
    this.asked = asked;
  }

  // takeFocus gives a new question the focus, unless one is typing elsewhere, or about to press a button such
  // as Kill. Keys are typed in the terminal.
  takeFocus() {
    const { question } = this.props.job, active = document.activeElement;
    if (/^(INPUT|TEXTAREA|SELECT|BUTTON)$/.test(active?.tagName)) return;
    const terminal = question?.kind === 'key' && document.querySelector('#output textarea');
    (terminal || this.field)?.focus({ preventScroll: true });
  }

  // answer sends the value and keeps it nowhere.
  async answer(event) {
    event.preventDefault();
    const { job } = this.props, { kind } = job.question;
    const text = this.field.value;
    this.field.value = '';
    await this.send({ text: kind === 'key' ? text : text + '\n', secret: kind === 'secret' });
  }

  async send(input) {
    const why = await post(`/api/jobs/${encodeURIComponent(this.props.job.id)}/input`, input);
    this.setState({ why });
  }

  render({ job }, { why }) {
    const { question } = job;
    if (!asks(job) || !question) return why && html`<p class="refusal" role="alert">${why}</p>`;
    const { kind, prompt, by } = question, secret = kind === 'secret';
    return html`
      <form data-answer autocomplete="off" onSubmit=${e => this.answer(e)}>
        <label>
          <span class="prompt">${prompt || 'It waits for input.'}</span>
          <small>${kinds[kind] ?? kind}${by && html` · <b>${by}</b>`}</small>
          <input name="answer" key=${kind} type=${secret ? 'password' : 'text'} autocomplete=${secret ? 'new-password' : 'off'}
            autocapitalize="off" spellcheck=${false} aria-label=${`answer to ${prompt || 'the program'}`} ref=${e => { this.field = e; }} />
        </label>
        <div>
          <button class="primary" disabled=${isLost(job)}>Answer</button>
          ${kind === 'line' && html`<button type="button" disabled=${isLost(job)} onClick=${() => this.send({ eof: true })}>End of input</button>`}
          ${kind === 'key' && job.rows && html`<small>Or press the key in the terminal.</small>`}
        </div>
        ${why && html`<p class="refusal" role="alert">${why}</p>`}
      </form>`;
  }
}

const kinds = { line: 'a line', secret: 'a secret, shown and kept nowhere', key: 'a key' };
