// The state of the page, and the live connection that changes it: one WebSocket a tab. It brings the
// list of jobs, the open job and its output. It takes what the page has drawn, and keys.

import { asks } from '/format.mjs';

export const state = {
  connection: 'new', // new, up, lost, or refused: this browser is not logged in
  lost: 0,           // when the connection was lost; 0: it is not
  servers: [],       // only async-repl page has several
  jobs: new Map(),   // briefs by id
  complete: false,   // the list has all jobs
  open: '',          // the id of the open job
  job: null,         // its document
  gone: false,       // there is no job of that id
  skipped: 0,        // bytes of its output that are not shown
  error: '',         // what the server has refused
};

// isLost reports whether the server of a job is not connected. Its jobs are shown as they were.
export const isLost = job => state.servers.some(s => s.id === job.server && s.lost);

// lostAt returns when the page has last known how a job stands, or 0 if it knows that now.
export const lostAt = job => state.servers.find(s => s.id === job.server)?.lostAt || state.lost;

// waits reports whether a job waits for an answer that can reach it.
export const waits = job => asks(job) && !isLost(job);

// serverName returns the name of a server: its workspace, and its process if others have the same one.
export function serverName({ id, workspace }) {
  const alike = state.servers.filter(s => s.workspace === workspace);
  return alike.length > 1 ? `${workspace} (process ${id.split('-').at(-1)})` : workspace;
}

// hasLogin reports whether this browser has logged in by a form, and can log out.
export const hasLogin = 'login' in document.documentElement.dataset;

// logOut ends the login. The server ends the live connection then, and the page loads again.
export async function logOut() {
  state.error = await post('/logout');
  announce();
}

let socket = null, tries = 0;
let changed = () => {};
let drawing = false;

// watch calls f soon after each change of the state, once for changes that come together. It uses a
// timer, because a hidden tab gets no animation frames and its title counts the jobs that wait.
export function watch(f) { changed = f; }
export function announce() {
  if (drawing) return;
  drawing = true;
  setTimeout(() => { drawing = false; changed(); });
}

export function connect() {
  socket = new WebSocket(`${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}/api/live`);
  socket.onopen = () => { tries = state.lost = 0; state.connection = 'up'; if (state.open) sendOpen(); announce(); };
  socket.onmessage = event => { receive(JSON.parse(event.data)); announce(); };
  socket.onclose = async () => {
    socket = null;
    state.lost ||= Date.now();
    const before = state.connection;
    state.connection = await isRefused() ? 'refused' : 'lost';
    // Nothing of the jobs stays on the screen. A server with a form for the token shows that.
    if (state.connection === 'refused' && (hasLogin || before !== 'new')) location.reload();
    announce();
    if (state.connection === 'lost') setTimeout(connect, Math.min(500 * 2 ** tries++, 5000));
  };
}

// isRefused reports whether the server wants a login. A WebSocket does not say why it was refused.
async function isRefused() {
  try {
    return (await fetch('/api/jobs?limit=1')).status === 401;
  } catch {
    return false;
  }
}

function send(message) {
  if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
}

function receive(m) {
  if (m.servers) {
    const lost = new Map(state.servers.map(s => [s.id, s.lostAt]));
    state.servers = m.servers.map(s => ({ ...s, lostAt: s.lost && (lost.get(s.id) || Date.now()) }));
  }
  if (m.jobs) {
    if (m.first) { state.jobs.clear(); state.complete = false; }
    for (const job of m.jobs) state.jobs.set(job.id, job);
    state.complete ||= Boolean(m.complete);
  }
  for (const id of m.removed ?? []) state.jobs.delete(id);
  if (m.job?.id === state.open) { state.job = m.job; state.gone = false; view?.update(m.job); }
  if (m.gone && m.gone === state.open) state.gone = true;
  if (m.error) {
    state.error = m.error;
    setTimeout(() => { state.error = ''; announce(); }, 8000);
  }
  if (m.output && m.output.job === state.open) receiveOutput(m.output);
}

// The output of the open job waits in queue until there is a view to write it to.
let view = null, queue = [];
let from = 0;   // the cursor at which queue begins, or up to which the view has been given output
let cursor = 0; // the cursor of the next byte that the page needs

// open makes a job the open one. The empty id opens none.
export function open(id) {
  Object.assign(state, { open: id, job: null, gone: false, error: '' });
  restart();
  announce();
}

// restart asks for the output of the open job from its beginning.
function restart() {
  queue = [];
  from = cursor = state.skipped = 0;
  sendOpen();
}

function sendOpen() {
  send(state.open ? { op: 'open', job: state.open, cursor } : { op: 'close' });
}

// receiveOutput takes the next piece of output. After a change from one job to another and back, there
// can be pieces under way that were sent before: of these it takes no byte twice and leaves no gap.
function receiveOutput(o) {
  if (o.from - (o.skipped ?? 0) > cursor || o.next <= cursor) return;
  const parts = [];
  let at = o.from;
  for (const { stream, data } of o.parts ?? []) {
    const bytes = decode(data);
    parts.push({ stream, bytes: bytes.subarray(Math.max(0, cursor - at)) });
    at += bytes.length;
  }
  const skipped = o.from > cursor ? o.from - cursor : 0;
  state.skipped += skipped;
  queue.push({ job: o.job, next: o.next, skipped, parts });
  cursor = o.next;
  flush();
}

const decode = Uint8Array.fromBase64 ?? (text => Uint8Array.from(atob(text), c => c.charCodeAt(0)));

// attach gives the output of the open job to a view, from the beginning. The view calls drawn after
// each piece: the server sends only so much that is not drawn.
export function attach(to) {
  view = to;
  if (from > 0) restart(); else flush();
}

export function detach(old) {
  if (view === old) view = null;
}

function flush() {
  if (!view) return;
  for (const piece of queue) {
    from = piece.next;
    view.write(piece, () => send({ op: 'drawn', job: piece.job, cursor: piece.next }));
  }
  queue = [];
}

// typeKeys sends keys to a job, as they are.
export function typeKeys(job, text) { send({ op: 'keys', job, text }); }

// get returns the JSON of an answer. The message of its error says why there is none.
export async function get(path) {
  const reply = await fetch(path);
  if (!reply.ok) throw new Error((await reply.text()).trim());
  return reply.json();
}

// post sends a request and returns the reason why it was refused, or the empty string.
export async function post(path, body) {
  try {
    const reply = await fetch(path, {
      method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body),
    });
    return reply.ok ? '' : (await reply.text()).trim() || `The server says ${reply.status}.`;
  } catch {
    return 'The server can’t be reached.';
  }
}
