// The style of text in a log: what the escape sequences of colours (SGR) and links (OSC 8) have set.

import { colour } from '/palette.mjs';
import { web } from '/format.mjs';

const flags = { 1: 'bold', 2: 'dim', 3: 'italic', 4: 'underline', 7: 'inverse', 9: 'strike' };
const ends = { 22: ['bold', 'dim'], 23: ['italic'], 24: ['underline'], 27: ['inverse'], 29: ['strike'] };

export class Pen {
  constructor() { this.style = {}; }

  // set carries out the numbers of an SGR sequence. A style never changes once text has it.
  set(numbers) {
    const style = { ...this.style };
    for (let i = 0; i < numbers.length; i++) {
      const n = numbers[i];
      if (n === 0) for (const key of Object.keys(style)) { if (key !== 'link') delete style[key]; }
      if (flags[n]) style[flags[n]] = true;
      for (const flag of ends[n] ?? []) delete style[flag];
      if (n >= 30 && n <= 37) style.fg = colour(n - 30);
      if (n >= 90 && n <= 97) style.fg = colour(n - 82);
      if (n >= 40 && n <= 47) style.bg = colour(n - 40);
      if (n >= 100 && n <= 107) style.bg = colour(n - 92);
      if (n === 39) delete style.fg;
      if (n === 49) delete style.bg;
      if (n === 38 || n === 48) {
        const key = n === 38 ? 'fg' : 'bg';
        if (numbers[i + 1] === 5) { style[key] = colour(numbers[i + 2] & 255); i += 2; }
        if (numbers[i + 1] === 2) { style[key] = `rgb(${numbers.slice(i + 2, i + 5).map(v => v & 255).join(' ')})`; i += 4; }
      }
    }
    this.style = style;
  }

  // link begins a link, or ends it if it leads to nothing that may be opened.
  link(target) {
    const { link: _, ...style } = this.style, href = web(target);
    this.style = href ? { ...style, link: href } : style;
  }
}

// element returns text in a style, on a stream.
export function element(text, style, stream) {
  const plain = stream === 'stdout' || stream === 'tty';
  if (plain && Object.keys(style).length === 0) return document.createTextNode(text);
  const e = document.createElement(style.link ? 'a' : 'span');
  if (style.link) Object.assign(e, { href: style.link, target: '_blank', rel: 'noopener noreferrer' });
  e.className = [plain ? '' : stream, ...Object.values(flags).filter(flag => style[flag])].join(' ').trim();
  let { fg, bg } = style;
  if (style.inverse) [fg, bg] = [bg ?? 'var(--paper)', fg ?? 'var(--ink)'];
  if (fg) e.style.color = fg;
  if (bg) e.style.backgroundColor = bg;
  e.textContent = text;
  return e;
}
