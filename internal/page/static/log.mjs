// The output of a job without a terminal, as lines of text: with colours, figures in their places, and
// progress that was drawn over itself in its last state.

import { Pen, element } from '/pen.mjs';
import { Follower } from '/follow.mjs';
import { figure, numberOf } from '/figure.mjs';
import { count, size } from '/format.mjs';

const mostLines = 5000;
const mostText = 4 << 20;    // characters of all lines
const longestLine = 20_000;  // characters; a longer line continues on the next
const longestSequence = 4096; // characters of an escape sequence that is not complete yet

const control = /\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-Z\\`-~]|[\x00-\x08\x0a-\x1f\x7f]/g;
const unfinished = /\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)?$/;

export class Log extends Follower {
  // scroller is the scrolling element, and following is called with whether the end is followed.
  constructor(scroller, job, following = () => {}) {
    const body = document.createElement('div');
    super(scroller, body, following);
    this.job = job;
    this.lines = [];
    this.row = this.column = this.text = this.older = 0;
    this.pen = new Pen();
    this.decoders = {};
    this.rests = {};  // the beginnings of escape sequences, by stream
    this.changed = new Set();
    this.body = body;
    body.className = 'log';
    scroller.replaceChildren(body);
  }

  // write adds a piece of output and calls drawn once it is on the page.
  write({ parts, skipped }, drawn) {
    if (skipped) this.add({ note: `${size(skipped)} of output are not shown here` });
    for (const { stream, bytes } of parts) {
      const text = (this.decoders[stream] ??= new TextDecoder()).decode(bytes, { stream: true });
      if (stream === 'display') this.displays(text); else this.print(text, stream);
    }
    this.draw();
    if (document.hidden) setTimeout(drawn); else requestAnimationFrame(drawn);
  }

  // update takes the job's document, which names the displays.
  update(job) {
    this.job = job;
    for (const line of this.lines) { if (line.display && line.known !== this.display(line.display)?.label) this.changed.add(line); }
    this.draw();
  }

  display(n) { return this.job.displays?.find(d => d.number === n); }

  displays(text) {
    const lines = ((this.rests.display ?? '') + text).split('\n');
    this.rests.display = lines.pop();
    for (const line of lines) { if (line) this.add({ display: numberOf(line), label: line }); }
  }

  // add appends a line that is no text. Text continues on a line of its own.
  add(line) {
    const last = this.lines.at(-1);
    if (last && isText(last) && last.length === 0) this.drop(this.lines.pop());
    this.lines.push({ ...line, runs: [], length: 0 });
    this.changed.add(this.lines.at(-1));
    this.row = this.lines.length;
    this.column = 0;
  }

  print(text, stream) {
    text = (this.rests[stream] ?? '') + text;
    const rest = unfinished.exec(text);
    this.rests[stream] = rest && rest[0].length < longestSequence ? rest[0] : '';
    if (this.rests[stream]) text = text.slice(0, rest.index);
    let at = 0;
    for (const match of text.matchAll(control)) {
      if (match.index > at) this.put(text.slice(at, match.index), stream);
      this.control(match[0]);
      at = match.index + match[0].length;
    }
    if (at < text.length) this.put(text.slice(at), stream);
  }

  // put writes text at the cursor, over what is there.
  put(text, stream) {
    const line = this.line();
    if (this.column > line.length) this.over(line, line.length, ' '.repeat(this.column - line.length), {}, 'stdout');
    const room = Math.max(1, longestLine - this.column);
    this.over(line, this.column, text.slice(0, room), this.pen.style, stream);
    this.column += Math.min(room, text.length);
    if (text.length <= room) return;
    this.control('\n');
    this.put(text.slice(room), stream);
  }

  // over replaces the text of a line from a column on.
  over(line, column, text, style, stream) {
    const end = column + text.length, last = line.runs.at(-1);
    if (column === line.length && last?.style === style && last.stream === stream) last.text += text;
    else if (column === line.length) line.runs.push({ text, style, stream });
    else line.runs = [...cut(line.runs, 0, column), { text, style, stream }, ...cut(line.runs, end, line.length)];
    this.setLength(line, Math.max(line.length, end));
  }

  // line returns the line at the cursor, which it makes if there is none.
  line() {
    while (this.row >= this.lines.length) {
      this.lines.push({ runs: [], length: 0 });
      this.changed.add(this.lines.at(-1));
    }
    return this.lines[this.row];
  }

  setLength(line, length) {
    this.text += length - line.length;
    line.length = length;
    this.changed.add(line);
  }

  control(sequence) {
    if (sequence === '\n') { this.line(); this.row++; this.column = 0; this.line(); return; }
    if (sequence === '\r') { this.column = 0; return; }
    if (sequence === '\b') { this.column = Math.max(0, this.column - 1); return; }
    const link = /^\x1b\]8;[^;]*;([^\x07\x1b]*)/.exec(sequence);
    if (link) { this.pen.link(link[1]); return; }
    const csi = /^\x1b\[([\d;:]*)([A-Za-z])$/.exec(sequence);
    if (!csi) return;
    const numbers = csi[1].split(/[;:]/).map(Number), n = Math.max(1, numbers[0]);
    switch (csi[2]) {
      case 'm': this.pen.set(numbers); break;
      case 'A': this.row = Math.max(this.lines.findLastIndex(line => !isText(line)) + 1, this.row - n); break; // below the last figure
      case 'B': this.row = Math.min(this.lines.length - 1, this.row + n); break;
      case 'C': this.column = Math.min(longestLine - 1, this.column + n); break;
      case 'D': this.column = Math.max(0, this.column - n); break;
      case 'G': this.column = Math.min(longestLine, n) - 1; break;
      case 'K': this.erase(numbers[0]); break;
    }
  }

  erase(how) {
    const line = this.line(), from = how === 0 ? this.column : 0, to = how === 1 ? this.column : line.length;
    if (to < line.length) { this.over(line, from, ' '.repeat(to - from), {}, 'stdout'); return; }
    line.runs = cut(line.runs, 0, from);
    this.setLength(line, Math.min(line.length, from));
  }

  // draw brings the page up to date. Of much output at once, lines that would leave the page again are
  // never drawn.
  draw() {
    this.trim();
    const added = document.createDocumentFragment();
    for (const line of this.changed) {
      const fresh = this.elementOf(line);
      if (line.element) line.element.replaceWith(fresh); else added.append(fresh);
      line.element = fresh;
    }
    this.changed.clear();
    this.body.append(added);
    if (this.follow) this.toEnd();
  }

  elementOf(line) {
    if (line.display !== undefined) {
      const display = this.display(line.display);
      line.known = display?.label;
      return figure(this.job.id, line.display, display, line.label);
    }
    const e = document.createElement('div');
    e.className = line.note ? 'note' : 'line';
    if (line.note) e.textContent = line.note;
    if (line.runs.some(run => run.stream === 'stderr')) e.classList.add('has-stderr');
    e.append(...line.runs.map(run => element(run.text, run.style, run.stream)));
    return e;
  }

  // trim drops the first lines if there are too many, and says how many it has dropped.
  trim() {
    let n = 0;
    for (let text = this.text; n < this.lines.length - 1 && (this.lines.length - n > mostLines || text > mostText); n++) text -= this.lines[n].length;
    if (!n) return;
    this.lines.splice(0, n).forEach(line => this.drop(line));
    this.row = Math.max(0, this.row - n);
    this.older += n;
    this.head ??= document.createElement('div');
    this.head.className = 'note';
    this.head.textContent = `${count(this.older, 'older line')} above: in the download`;
    this.body.prepend(this.head);
  }

  drop(line) {
    this.text -= line.length;
    line.element?.remove();
    this.changed.delete(line);
  }

  // find highlights every place of a text, scrolls to the next or the previous one, and says which of
  // them it is.
  find(text, back) {
    const ranges = this.ranges(text.toLowerCase());
    CSS.highlights?.set('found', new Highlight(...ranges));
    if (!ranges.length) { CSS.highlights?.delete('found-here'); return text ? 'not found' : ''; }
    this.at = text === this.sought ? this.at + (back ? -1 : 1) : ranges.length - 1;
    this.at = (this.at + ranges.length) % ranges.length;
    this.sought = text;
    CSS.highlights?.set('found-here', new Highlight(ranges[this.at]));
    const place = ranges[this.at].getBoundingClientRect(), frame = this.scroller.getBoundingClientRect();
    this.scroller.scrollTop += place.top - frame.top - frame.height / 2;
    return `${this.at + 1} of ${ranges.length}`;
  }

  ranges(text) {
    const found = [];
    if (!text) return found;
    const nodes = document.createTreeWalker(this.body, NodeFilter.SHOW_TEXT);
    for (let node = nodes.nextNode(); node; node = nodes.nextNode()) {
      const data = node.data.toLowerCase();
      for (let at = data.indexOf(text); at >= 0 && found.length < 10_000; at = data.indexOf(text, at + text.length)) {
        const range = new Range();
        range.setStart(node, at);
        range.setEnd(node, at + text.length);
        found.push(range);
      }
    }
    return found;
  }

  close() {
    CSS.highlights?.clear();
    super.close();
    this.scroller.replaceChildren();
  }
}

const isText = line => line.display === undefined && !line.note;

// cut returns the runs between two columns.
function cut(runs, from, to) {
  const kept = [];
  let at = 0;
  for (const run of runs) {
    const text = run.text.slice(Math.max(0, from - at), Math.max(0, to - at));
    if (text) kept.push({ ...run, text });
    at += run.text.length;
  }
  return kept;
}
