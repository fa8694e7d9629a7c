// The output of a job with a terminal. It is as large as the job's, and typing in it types in the job.

import { Terminal } from '/vendor/xterm.mjs';
import { FitAddon } from '/vendor/addon-fit.mjs';
import { SearchAddon } from '/vendor/addon-search.mjs';
import { Follower } from '/follow.mjs';
import { onScheme, theme } from '/palette.mjs';
import { isLive, size, web } from '/format.mjs';

const largest = 13, smallest = 9; // pixels of the font

export class Screen extends Follower {
  // type gets the keys that are typed, and leave is called when one leaves the terminal by Ctrl and dot.
  constructor(scroller, job, following, type, leave) {
    const box = document.createElement('div');
    super(scroller, scroller, following); // the size of the box follows from fit
    box.className = 'screen';
    scroller.replaceChildren(box);
    this.terminal = new Terminal({
      rows: job.rows, cols: job.columns, fontSize: largest, scrollback: 10_000, theme: theme(),
      fontFamily: 'ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace',
      minimumContrastRatio: 4.5, cursorInactiveStyle: 'outline',
      allowProposedApi: true, // for the marks of a search
      linkHandler: { activate: (_, link) => { if (web(link)) window.open(web(link), '_blank', 'noopener,noreferrer'); } },
    });
    this.fitter = new FitAddon();
    this.search = new SearchAddon();
    this.terminal.loadAddon(this.fitter);
    this.terminal.loadAddon(this.search);
    this.terminal.open(box);
    this.listen(type, leave);
    this.terminal.onScroll(this.onScroll);
    this.unscheme = onScheme(() => { this.terminal.options.theme = theme(); });
    // Of very many places the search marks the first, and does not know which of all is shown.
    this.search.onDidChangeResults(({ resultIndex, resultCount }) => {
      const which = resultIndex < 0 ? `${resultCount} or more` : `${resultIndex + 1} of ${resultCount}`;
      this.found = resultCount ? which : 'not found';
    });
    this.update(job);
  }

  // listen passes on what a person types. The terminal also answers queries of programs, such as where
  // its cursor is. These answers stay here: the server has given them already. Only the user's input is
  // announced by onUserInput, right before its data.
  listen(type, leave) {
    let typed = false;
    this.terminal._core.coreService.onUserInput(() => { typed = true; });
    this.terminal.onData(data => {
      if (typed && this.live) type(data);
      typed = false;
    });
    this.terminal.attachCustomKeyEventHandler(event => {
      if (event.ctrlKey && event.key === '.') {
        if (event.type === 'keydown') leave();
        return false;
      }
      return this.live; // else the keys are the page's
    });
  }

  update(job) {
    this.live = isLive(job);
    this.terminal.textarea.disabled = !this.live;
    if (job.rows && (job.rows !== this.terminal.rows || job.columns !== this.terminal.cols)) this.terminal.resize(job.columns, job.rows);
    this.fit();
  }

  write({ parts, skipped }, drawn) {
    if (skipped) this.terminal.write(`\x1bc\x1b[2m[${size(skipped)} of output are not shown here]\x1b[0m\r\n`);
    for (const part of parts) this.terminal.write(part.bytes);
    this.terminal.write('', () => { super.resized(); drawn(); });
  }

  resized() {
    this.fit();
    super.resized();
  }

  // fit shrinks the font so that the width of the job's terminal fits, down to the smallest one that
  // can be read. Beyond that the page scrolls.
  fit() {
    const { options, cols } = this.terminal;
    const fits = this.fitter.proposeDimensions();
    if (!fits || Number.isNaN(fits.cols)) return;
    const wanted = Math.floor(2 * options.fontSize * (fits.cols + 1) / cols) / 2;
    options.fontSize = Math.min(largest, Math.max(smallest, wanted));
    while (options.fontSize > smallest && this.fitter.proposeDimensions().cols < cols) options.fontSize -= 0.5;
  }

  // place returns where the page must scroll for the line of the cursor to be seen.
  place() {
    const box = this.terminal.element, line = box.clientHeight / this.terminal.rows;
    const end = (this.terminal.buffer.active.cursorY + 2) * line - this.scroller.clientHeight;
    return Math.max(0, Math.min(end, this.scroller.scrollHeight - this.scroller.clientHeight));
  }

  // scrolled compares both with their ends: the lines of the terminal, and the page around it. The cursor is
  // ahead of the page while output is drawn, so the page must also have moved.
  scrolled() {
    const { viewportY, baseY } = this.terminal.buffer.active, { scrollTop } = this.scroller;
    const near = Math.abs(scrollTop - this.place()) < 8, stays = this.follow && Math.abs(scrollTop - this.top) < 2;
    this.setFollow(viewportY === baseY && (near || stays));
    this.top = scrollTop;
  }

  toEnd() {
    this.terminal.scrollToBottom();
    super.toEnd();
  }

  // find selects the next place of a text or the previous one, and says which of them it is. It begins with
  // the last.
  find(text, back) {
    this.found = '';
    if (text !== this.sought) { this.terminal.clearSelection(); back = true; }
    this.sought = text;
    const { selectionBackground, yellow } = theme();
    const decorations = { matchBackground: selectionBackground, matchOverviewRuler: yellow, activeMatchColorOverviewRuler: yellow, activeMatchBorder: yellow };
    if (text) this.search[back ? 'findPrevious' : 'findNext'](text, { decorations }); else this.search.clearDecorations();
    return this.found;
  }

  close() {
    super.close();
    this.unscheme();
    this.terminal.dispose();
    this.scroller.replaceChildren();
  }
}
