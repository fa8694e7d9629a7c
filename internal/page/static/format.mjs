// How sizes, times and names are written.

// size returns a number of bytes with its unit.
export function size(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  const units = ['KB', 'MB', 'GB', 'TB'];
  let n = bytes / 1000, unit = 0;
  while (n >= 999.5 && unit < units.length - 1) { n /= 1000; unit++; }
  return `${n.toFixed(n < 9.95 ? 1 : 0)} ${units[unit]}`;
}

// count returns a number with its noun, which gets an s unless there is one.
export const count = (n, noun) => `${n.toLocaleString('en')} ${noun}${n === 1 ? '' : 's'}`;

// span returns a length of time: 0.4 s, 12 s, 3:05, 1:02:03.
export function span(seconds, exact) {
  if (seconds < 60) return `${exact && seconds < 9.95 ? seconds.toFixed(1) : Math.floor(seconds)} s`;
  const two = n => String(n).padStart(2, '0'), s = Math.floor(seconds);
  const minutes = Math.floor(s / 60) % 60, hours = Math.floor(s / 3600);
  return hours ? `${hours}:${two(minutes)}:${two(s % 60)}` : `${minutes}:${two(s % 60)}`;
}

// moment returns a time of day, and the day if it is not today.
export function moment(text) {
  const t = new Date(text), time = t.toLocaleTimeString('en-GB');
  if (t.toDateString() === new Date().toDateString()) return time;
  return `${t.toLocaleDateString('en-GB', { day: 'numeric', month: 'short' })}, ${time}`;
}

// short returns the beginning of a text. A title can have 64 KiB, and a row shows one line.
export const short = (text, most = 300) => text.length > most ? text.slice(0, most) + '…' : text;

// web returns a link if it leads to http or https, and else the empty string.
export function web(link) {
  const { protocol, href } = URL.canParse(link) ? new URL(link) : {};
  return protocol === 'http:' || protocol === 'https:' ? href : '';
}

// isLive reports whether a job has not ended.
export const isLive = job => !['completed', 'failed', 'cancelled'].includes(job.status);

// asks reports whether a job waits for an answer.
export const asks = job => job.status === 'waiting_input';
