package waiting

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/polltest"
	"asyncrepl/internal/tty"
	"asyncrepl/internal/tty/ttytest"
)

// nurseryProgram starts the programs of TestPolls: to start a Python for each would take most of
// the tests' time. It reads a terminal's path and a program in each line, forks, and prints the
// child's pid. keep saves an object from the collector, which would close its descriptor; resting
// starts a process that shares all descriptors and runs a function or else waits for a signal;
// other's does something again and again.
const nurseryProgram = `
import ctypes, fcntl, json, os, select, signal, socket, struct, sys, termios, threading, time, tty, asyncio, pty
libc = ctypes.CDLL(None, use_errno=True)
x86 = os.uname().machine == "x86_64"
def ts(s): return ctypes.byref((ctypes.c_long * 2)(int(s), int(s % 1 * 1e9)))
def poll(*fds, timeout=None):
    p = select.poll()
    for fd in fds: p.register(fd, select.POLLIN)
    return p.poll(timeout)
def epoll(*fds):
    e = select.epoll()
    for fd in fds: e.register(fd, select.EPOLLIN)
    return e
def keep(f):
    globals().setdefault("kept", []).append(f)
    return f
def resting(f=signal.pause, *a):
    r, w = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(r)
        os.write(w, b".")
        os.close(w)
        f(*a)
        os._exit(0)
    os.close(w)
    os.read(r, 1)
    os.close(r)
    return pid
def steps():
    while True: time.sleep(0.01)
def other(): return resting(steps)
def connect():
    with socket.create_server(("127.0.0.1", 0)) as s:
        a = socket.create_connection(s.getsockname())
        return a, s.accept()[0]
def connect6():
    with socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True) as s:
        a = socket.create_connection(("127.0.0.1", s.getsockname()[1]))
        return a, s.accept()[0]
def end_first_thread(): libc.syscall(60 if x86 else 93, 0)
def thread(f, *a): threading.Thread(target=f, args=a, daemon=True).start()
def blocked(f, *a):
    """A thread that has come to its call: it is in one, and not for its turn to run Python."""
    t = threading.Thread(target=f, args=a, daemon=True)
    t.start()
    while open(f"/proc/self/task/{t.native_id}/syscall").read().split()[0] in ("running", "202" if x86 else "98"):
        time.sleep(0.001)
def idle(): time.sleep(1000)

signal.signal(signal.SIGCHLD, signal.SIG_IGN) # so that the kernel reaps them
outside_tcp = socket.create_server(("127.0.0.1", 0), backlog=100)
outside = outside_tcp.getsockname()[1]
outside_unix = "async-repl-test-%d" % os.getpid()
listener = socket.socket(socket.AF_UNIX)
listener.bind("\0" + outside_unix)
listener.listen(100)
for line in sys.stdin:
    path, code = json.loads(line)
    pid = os.fork()
    if pid:
        print(pid, flush=True)
        continue
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    terminal = os.open(path, os.O_RDWR) # which makes it the controlling one
    for fd in range(3): os.dup2(terminal, fd)
    os.closerange(3, 256)
    # Its last output comes before it blocks: a scan that sees nothing proves something only after that.
    print("ready", flush=True)
    exec(code)
    os._exit(0)
`

// A nursery starts Python programs on terminals.
type nursery struct {
	mu  sync.Mutex // held during a start
	in  *json.Encoder
	out *bufio.Reader
}

func newNursery(t *testing.T) *nursery {
	t.Helper()
	cmd := exec.Command("python3", "-I", "-S", "-u", "-c", nurseryProgram)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	return &nursery{in: json.NewEncoder(in), out: bufio.NewReader(out)}
}

// start runs a Python program, which has printed "ready" just before its code begins.
func (n *nursery) start(t *testing.T, code string) program {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	p := program{ttytest.StartBy(t, func(pty *tty.PTY) (pid int, _ <-chan struct{}, err error) {
		gone := make(chan struct{})
		close(gone) // the kernel reaps it
		if err := n.in.Encode([]string{pty.Slave().Name(), code}); err != nil {
			return 0, nil, err
		}
		_, err = fmt.Fscanln(n.out, &pid)
		return pid, gone, err
	})}
	p.WaitPrinted(t, "ready")
	return p
}

// otherNamespace moves a program to a network namespace of its own, if it may.
const otherNamespace = `
if not libc.unshare(0x40000000):
    fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh14x", b"lo", 65)) # up`

// TestPolls scans programs that wait for the terminal in poll, select and epoll, alone and beside
// other things.
func TestPolls(t *testing.T) {
	n := newNursery(t)
	for name, c := range map[string]struct {
		want verdict
		kind string
		code string
	}{
		"poll":             {waits, kindLine, `poll(0)`},
		"poll of /dev/tty": {waits, kindLine, `poll(os.open("/dev/tty", os.O_RDWR))`},
		"poll, secret": {waits, kindSecret, `
m = termios.tcgetattr(0); m[3] &= ~termios.ECHO; termios.tcsetattr(0, termios.TCSANOW, m)
poll(0)`},
		"poll, key":                   {waits, kindKey, `tty.setcbreak(0); poll(0)`},
		"ppoll":                       {waits, kindLine, `libc.ppoll((ctypes.c_short * 4)(0, 0, 1, 0), 1, None, None)`},
		"ppoll, 60 s":                 {waits, kindLine, `libc.ppoll((ctypes.c_short * 4)(0, 0, 1, 0), 1, ts(60), None)`},
		"select":                      {waits, kindLine, `select.select([0], [], [0])`},
		"select, 60 s":                {waits, kindLine, `select.select([0], [], [], 60)`},
		"select of a high descriptor": {waits, kindLine, `os.dup2(0, 900); select.select([900], [], [])`},
		"epoll":                       {waits, kindLine, `epoll(0).poll()`},
		"epoll, 60 s":                 {waits, kindLine, `epoll(0).poll(60)`},
		"epoll_pwait2":                {waits, kindLine, `libc.syscall(441, keep(epoll(0)).fileno(), ctypes.create_string_buffer(100), 1, ts(60), None)`},
		"epoll in epoll":              {waits, kindLine, `epoll(keep(epoll(0))).poll()`},
		"poll of an epoll":            {waits, kindLine, `poll(keep(epoll(0)))`},
		"asyncio": {waits, kindLine, `
loop = asyncio.new_event_loop()
loop.add_reader(0, lambda: None)
loop.run_forever()`},
		"own pipe":        {waits, kindLine, `poll(0, *os.pipe()[:1])`},
		"own socket pair": {waits, kindLine, `a, b = socket.socketpair(); poll(0, a)`},
		"eventfd":         {waits, kindLine, `poll(0, libc.eventfd(0, 0))`},
		"timerfd":         {waits, kindLine, `poll(0, libc.timerfd_create(1, 0))`},
		"signalfd":        {waits, kindLine, `poll(0, libc.signalfd(-1, ctypes.create_string_buffer(128), 0))`},
		"inotify":         {waits, kindLine, `poll(0, libc.inotify_init())`},
		"idle threads": {waits, kindLine, `
r, w = os.pipe()
thread(idle); thread(threading.Event().wait); thread(os.read, r, 1); thread(lambda: signal.sigwait([signal.SIGUSR1]))
poll(0, libc.eventfd(0, 0))`},
		"another thread waits for its own program": {waits, kindLine, `
thread(poll, os.pipe()[0])
os.read(0, 1)`},
		"without job control": {waits, kindLine, `
if os.fork(): signal.pause()
os.setsid()
poll(0)`},

		"a pipe of a process that waits for a signal": {waits, kindLine, `
r, w = os.pipe()
resting()
os.close(w); poll(0, r)`},
		"a pipe that is shared with a process that sleeps for long": {waits, kindLine, `
r, w = os.pipe()
resting(libc.sleep, 1000)
poll(0, r)`},
		"a pipe of a process in a futex": {waits, kindLine, `
r, w = os.pipe()
resting(threading.Event().wait, 1000)
os.close(w); poll(0, r)`},
		"a pipe of a process that waits for its child": {waits, kindLine, `
r, w = os.pipe()
def parent():
    child = os.fork()
    if not child:
        os.close(w)
        steps()
    os.waitpid(child, 0)
resting(parent)
os.close(w); poll(0, r)`},
		"a pipe of a process that polls for long": {waits, kindLine, `
r, w = os.pipe()
resting(poll, libc.eventfd(0, 0))
os.close(w); poll(0, r)`},
		"a pipe of a process that is stopped": {waits, kindLine, `
r, w = os.pipe()
os.kill(other(), signal.SIGSTOP)
os.close(w); poll(0, r)`},
		"a pipe of a process that waits for the terminal, too": {waits, kindLine, `
r, w = os.pipe()
resting(poll, 0)
os.close(w); poll(0, r)`},
		"processes that wait for one another": {waits, kindLine, `
a, b = socket.socketpair(); c, d = socket.socketpair()
def first(): b.close(); d.close(); a.recv(1)
def second(): a.close(); c.close(); poll(b, d)
resting(first); resting(second)
a.close(); b.close(); d.close(); poll(0, c)`},
		"a pipe of a process whose pipe is of one that waits for a signal": {waits, kindLine, `
r, w = os.pipe(); r2, w2 = os.pipe()
resting()
os.close(w2); resting(os.read, r2, 1)
os.close(w); os.close(r2); poll(0, r)`},
		"a full pipe to a process that does not read": {waits, kindLine, `
r, w = os.pipe()
resting()
os.close(r); os.set_blocking(w, False)
try:
    while True: os.write(w, bytes(65536))
except BlockingIOError: pass
p = select.poll(); p.register(0, select.POLLIN); p.register(w, select.POLLOUT); p.poll()`},
		"a socket pair with a process that reads it": {waits, kindLine, `
a, b = socket.socketpair()
resting(b.recv, 1)
b.close(); select.select([0, a], [], [])`},
		"a connection to a process that reads it": {waits, kindLine, `
a, b = connect()
resting(b.recv, 1)
b.close(); poll(0, a)`},
		"a connection over IPv4 to a socket for IPv6": {waits, kindLine, `
a, b = connect6()
resting(b.recv, 1)
b.close(); poll(0, a)`},
		"a connection in another network namespace": {waits, kindLine, otherNamespace + `
a, b = connect()
resting(b.recv, 1)
b.close(); poll(0, a)`},
		"a connection in another network namespace to a process that works": {accepts, kindLine, otherNamespace + `
a, b = connect()
other()
b.close(); poll(0, a)`},
		"a connection to itself": {waits, kindLine, `a, b = connect(); poll(0, a)`},
		"read, and a thread that receives from a process at rest": {waits, kindLine, `
a, b = connect()
resting(b.recv, 1)
b.close(); blocked(a.recv, 1); os.read(0, 1)`},
		"poll, and a thread that has ended": {waits, kindLine, `
thread(poll, 0, libc.eventfd(0, 0)); end_first_thread()`},
		"a pipe of a process whose first thread has ended": {waits, kindLine, `
r, w = os.pipe()
def threads(): thread(os.read, libc.eventfd(0, 0), 8); end_first_thread()
resting(threads)
os.close(w); poll(0, r)`},
		"a pipe that a process had that has ended": {waits, kindLine, `
r, w = os.pipe()
os.waitid(os.P_PID, resting(int), os.WEXITED | os.WNOWAIT)
poll(0, r)`},

		"a pipe of a process that wakes for a moment": {accepts, kindLine, `
r, w = os.pipe()
def short():
    while True: poll(libc.eventfd(0, 0), timeout=10)
resting(short)
os.close(w); poll(0, r)`},
		"a pipe of a process with a thread that wakes": {accepts, kindLine, `
r, w = os.pipe()
def threads(): thread(steps); signal.pause()
resting(threads)
os.close(w); poll(0, r)`},
		"a pipe of a process that computes": {accepts, kindLine, `
r, w = os.pipe()
def compute():
    while True: pass
resting(compute)
os.close(w); poll(0, r)`},
		"a pipe of a process that listens": {accepts, kindLine, `
s = socket.create_server(("127.0.0.1", 0))
r, w = os.pipe()
resting(s.accept)
os.close(w); poll(0, r)`},
		"a pipe of a process whose pipe is of one that works": {accepts, kindLine, `
r, w = os.pipe(); r2, w2 = os.pipe()
other()
os.close(w2); resting(os.read, r2, 1)
os.close(w); os.close(r2); poll(0, r)`},
		"a pipe of a process whose first thread has ended and another works": {accepts, kindLine, `
r, w = os.pipe()
def threads(): thread(steps); end_first_thread()
resting(threads)
os.close(w); poll(0, r)`},
		"a pipe of a process with a timer": {accepts, kindLine, `
r, w = os.pipe()
timer = libc.timerfd_create(1, 0)
libc.timerfd_settime(timer, 0, (ctypes.c_long * 4)(0, 20000000, 0, 20000000), None)
def ticks():
    while True: poll(timer); os.read(timer, 8)
resting(ticks)
os.close(w); poll(0, r)`},
		"a connection to a process that works": {accepts, kindLine, `
a, b = connect()
other()
b.close(); poll(0, a)`},
		"a connection to a process outside": {accepts, kindLine, `
a = socket.create_connection(("127.0.0.1", outside)); poll(0, a)`},
		"a Unix socket of a process outside": {accepts, kindLine, `
a = socket.socket(socket.AF_UNIX); a.connect("\0" + outside_unix); poll(0, a)`},
		"poll, and a thread that has ended, and one that works": {accepts, kindLine, `
def compute():
    while True: pass
thread(compute); thread(poll, 0, libc.eventfd(0, 0)); end_first_thread()`},

		"listens":                          {accepts, kindLine, `s = socket.create_server(("127.0.0.1", 0)); poll(0, s)`},
		"listens, in an epoll in an epoll": {accepts, kindLine, `s = socket.create_server(("127.0.0.1", 0)); epoll(0, keep(epoll(s))).poll()`},
		"asyncio with a server": {accepts, kindLine, `
async def main():
    server = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
    asyncio.get_running_loop().add_reader(0, lambda: None)
    await server.serve_forever()
asyncio.run(main())`},
		"pipe of another process": {accepts, kindLine, `
r, w = os.pipe()
other()
os.close(w); poll(0, r)`},
		"a pipe that another process has too": {accepts, kindLine, `
r, w = os.pipe()
other()
poll(0, r)`},
		"a socket pair with another": {accepts, kindLine, `
a, b = socket.socketpair()
other()
b.close(); select.select([0, a], [], [])`},
		"a child's terminal": {accepts, kindLine, `
pid, fd = pty.fork()
if not pid: signal.pause()
poll(0, fd)`},
		"end of another process": {accepts, kindLine, `poll(0, os.pidfd_open(os.getppid()))`},
		"a closed descriptor in the epoll": {accepts, kindLine, `
a, b = socket.socketpair()
e = epoll(0, a); os.dup(a.fileno()); os.close(a.detach()); e.poll()`},
		"briefly": {looping, kindLine, `while True: poll(0, timeout=200)`},
		"briefly, epoll": {looping, kindLine, `
e = epoll(0)
while True: e.poll(0.2)`},
		"briefly, select": {looping, kindLine, `
while True: select.select([0], [], [], 0.2)`},
		"briefly, read": {looping, kindKey, `
m = termios.tcgetattr(0); m[3] &= ~termios.ICANON; m[6][termios.VMIN] = 0; m[6][termios.VTIME] = 2
termios.tcsetattr(0, termios.TCSANOW, m)
while True: os.read(0, 1)`},
		"briefly, and a process that works": {accepts, kindLine, `
other()
while True: poll(0, timeout=200)`},
		"briefly, and a process at rest": {looping, kindLine, `
resting()
while True: poll(0, timeout=200)`},
		"briefly, and a server": {accepts, kindLine, `
s = socket.create_server(("127.0.0.1", 0))
while True: poll(0, s, timeout=200)`},
		"read, and a thread that listens": {accepts, kindLine, `
s = socket.create_server(("127.0.0.1", 0)); blocked(s.accept); os.read(0, 1)`},
		"read, and a thread with a socket in an epoll": {accepts, kindLine, `
s = socket.create_server(("127.0.0.1", 0)); blocked(epoll(s).poll); os.read(0, 1)`},
		"poll, and a thread that computes": {accepts, kindLine, `
def compute():
    while True: pass
thread(compute)
poll(0, libc.eventfd(0, 0))`},
		"poll, and a thread that waits for a child": {accepts, kindLine, `
other()
thread(os.wait)
poll(0, libc.eventfd(0, 0))`},

		"for the hangup":    {busy, "", `libc.poll((ctypes.c_short * 4)(0, 0, 0, 0), 1, -1)`},
		"for the exception": {busy, "", `select.select([], [], [0])`},
		"a socket":          {busy, "", `poll(socket.create_server(("127.0.0.1", 0)))`},
		"another terminal":  {busy, "", `poll(pty.openpty()[1])`},
		"nothing":           {busy, "", `poll()`},
		"of the background": {busy, "", `
if os.fork(): signal.pause()
os.setpgid(0, 0)
poll(0)`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := n.start(t, c.code)
			p.holds(t, p.PTY, c.want, c.kind)
		})
	}
}

// TestAlso scans programs that take input and wait for something else as well, which their evidence
// names.
func TestAlso(t *testing.T) {
	n := newNursery(t)
	for name, c := range map[string]struct{ want, code string }{
		"listener":          {`listens on 127\.0\.0\.1:\d+`, `s = socket.create_server(("127.0.0.1", 0)); poll(0, s)`},
		"listener for IPv6": {`listens on \[::\]:\d+`, `s = socket.create_server(("::", 0), family=socket.AF_INET6); poll(0, s)`},
		"connection":        {`waits for a connection to 127\.0\.0\.1:\d+`, `a = socket.create_connection(("127.0.0.1", outside)); poll(0, a)`},
		"Unix socket":       {`waits for a Unix socket`, `a = socket.socket(socket.AF_UNIX); a.connect("\0" + outside_unix); poll(0, a)`},
		"other socket":      {`waits for a socket`, `poll(0, socket.socket(socket.AF_INET, socket.SOCK_DGRAM))`},
		"pipe":              {`waits for python3 \(pid \d+\)`, `r, w = os.pipe(); other(); os.close(w); poll(0, r)`},
		"process at rest and one at work": {`waits for python3 \(pid \d+\)`, `
r, w = os.pipe(); r2, w2 = os.pipe()
other()
os.close(w2); resting(os.read, r2, 1)
os.close(w); os.close(r2); poll(0, r)`},
		"terminal":         {`waits for /dev/ptmx|waits for /dev/pts/ptmx`, `a, b = pty.openpty(); poll(0, a)`},
		"end of a process": {`waits for the end of a process`, `poll(0, os.pidfd_open(os.getppid()))`},
		"timer": {`waits for a timer`, `
timer = libc.timerfd_create(1, 0)
libc.timerfd_settime(timer, 0, (ctypes.c_long * 4)(0, 20000000, 0, 20000000), None)
while True: poll(0, timer); os.read(timer, 8)`},
		"thread": {`has a thread at work`, "def compute():\n    while True: pass\nthread(compute); poll(0)"},
		"child":  {`waits for a child`, `other(); blocked(os.wait); poll(0)`},
		"short wait, and a process": {`runs beside python3 \(pid \d+\)`, `
other()
while True: poll(0, timeout=200)`},
		"thread of a read": {`listens on 127\.0\.0\.1:\d+`, `s = socket.create_server(("127.0.0.1", 0)); blocked(s.accept); os.read(0, 1)`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := n.start(t, c.code)
			want := regexp.MustCompile(`^read by python3 \(pid \d+\), which also (` + c.want + `)$`)
			polltest.Until(t, c.want, func() bool {
				ev, v := scanTree(p.PTY, p.Tree(), p.List)
				if v == waits {
					t.Fatalf("got %+v, verdict %d", ev, v)
				}
				return v == accepts && want.MatchString(ev.By())
			})
		})
	}
}

// TestContinued stops programs inside their calls and continues them. The kernel then shows some of
// them in another call, by which it resumes the first. The verdict must be the same as before.
func TestContinued(t *testing.T) {
	n := newNursery(t)
	for name, c := range map[string]struct {
		want verdict
		kind string
		code string
	}{
		"poll":                           {waits, kindLine, `poll(0)`},
		"poll, 60 s":                     {waits, kindLine, `poll(0, timeout=60000)`},
		"poll, key":                      {waits, kindKey, `tty.setcbreak(0); poll(0)`},
		"select":                         {waits, kindLine, `select.select([0], [], [], 60)`},
		"read":                           {waits, kindLine, `os.read(0, 1)`},
		"poll and a sleep":               {waits, kindLine, `blocked(libc.sleep, 1000); poll(0)`},
		"poll and a futex":               {waits, kindLine, `thread(threading.Event().wait, 1000); poll(0)`},
		"poll with a socket":             {accepts, kindLine, `s = socket.create_server(("127.0.0.1", 0)); poll(0, s)`},
		"poll, and a thread on a socket": {accepts, kindLine, `s = socket.create_server(("127.0.0.1", 0)); blocked(poll, s); poll(0)`},
		"poll of a socket":               {busy, "", `poll(socket.create_server(("127.0.0.1", 0)))`},
		"sleep":                          {busy, "", `libc.sleep(1000)`},
		"a futex that reads like a set with the terminal": {busy, "",
			`libc.syscall(202 if x86 else 98, (ctypes.c_short * 512)(*(0, 0, 1, 0) * 128), 128, 0, ts(1000), None, 0)`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := n.start(t, c.code)
			p.holds(t, p.PTY, c.want, c.kind)
			state := func(want string) {
				t.Helper()
				polltest.Until(t, "state "+want, func() bool { return ttytest.State(p.PID) == want })
			}
			for range 2 {
				unix.Kill(p.PID, unix.SIGSTOP)
				state("T")
				unix.Kill(p.PID, unix.SIGCONT)
				state("S")
				p.holds(t, p.PTY, c.want, c.kind)
			}
		})
	}
}

// holds scans until it gets the wanted verdict, then again and again. It fails if a scan reports a
// program as waiting that does not wait.
func (p program) holds(t *testing.T, from Source, want verdict, kind string) {
	t.Helper()
	if want == busy {
		polltest.Until(t, "all to sleep", func() bool {
			for _, pid := range p.Tree() {
				if s := ttytest.State(pid); s != "S" {
					return false
				}
			}
			return true
		})
	} else {
		polltest.Until(t, "the verdict", func() bool {
			ev, v := scanTree(from, p.Tree(), p.List)
			if v > want && v != uncertain {
				t.Fatalf("got %+v, verdict %d, want %d", ev, v, want)
			}
			return v == want && ev.Kind == kind
		})
	}
	for range 50 {
		switch ev, v := scanTree(from, p.Tree(), p.List); {
		case v == waits && want != waits, v == accepts && want == busy:
			t.Fatalf("got %+v, verdict %d, want %d", ev, v, want)
		case v != uncertain && ev == Evidence{} && want == waits:
			t.Fatalf("verdict %d, want %d", v, want)
		}
	}
}

// TestRealPrograms scans programs that edit lines or fill the screen, as far as the machine has
// them.
func TestRealPrograms(t *testing.T) {
	for name, c := range map[string]struct {
		argv  []string
		waits bool
		kind  string
	}{
		"bash":     {[]string{"bash", "--norc", "--noprofile", "-i"}, true, kindKey},
		"dash":     {[]string{"dash", "-i"}, true, kindLine},
		"python3":  {[]string{"python3", "-q", "-E", "-s"}, true, kindKey},
		"node":     {[]string{"node"}, true, kindKey},
		"sqlite3":  {[]string{"sqlite3", "-init", "/dev/null"}, true, kindKey},
		"gdb":      {[]string{"gdb", "-q", "-nx"}, true, kindKey},
		"tclsh":    {[]string{"tclsh"}, true, kindLine},
		"bc":       {[]string{"bc", "-q"}, true, kindKey},
		"ed":       {[]string{"ed"}, true, kindLine},
		"less":     {[]string{"less", "/etc/services", "/etc/passwd"}, true, kindKey},
		"vim":      {[]string{"vim", "-u", "NONE", "-i", "NONE"}, true, kindKey},
		"nano":     {[]string{"nano", "-I"}, true, kindKey},
		"top":      {[]string{"top"}, true, kindKey},
		"htop":     {[]string{"htop"}, true, kindKey},
		"perl":     {[]string{"perl", "-de0"}, true, kindLine},
		"irb":      {[]string{"irb", "-f"}, true, kindKey},
		"php":      {[]string{"php", "-n", "-a"}, true, kindKey},
		"lua":      {[]string{"lua", "-i"}, true, kindKey},
		"jshell":   {[]string{"jshell", "-R-Duser.home=/nonexistent"}, true, kindKey},
		"ipython":  {[]string{"ipython", "--quick", "--no-banner"}, true, kindKey},
		"dialog":   {[]string{"dialog", "--yesno", "Go on?", "0", "0"}, true, kindKey},
		"whiptail": {[]string{"whiptail", "--yesno", "Go on?", "0", "0"}, true, kindKey},
		"script":   {[]string{"script", "-q", "-c", "cat", "/dev/null"}, false, kindKey},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(c.argv[0]); err != nil {
				t.Skip(err)
			}
			t.Parallel()
			p := start(t, append([]string{"env", "TERM=xterm-256color", "HOME=" + t.TempDir()}, c.argv...))
			for reported := p.watch(t); ; {
				if ev := next(t, reported); ev.waiting == c.waits && ev.Kind == c.kind {
					t.Logf("%+v, %v after its last output", ev.Evidence, ev.at.Sub(p.LastOutput()).Round(time.Millisecond))
					break
				}
			}
		})
	}
}

// TestOtherUser scans a program of another user, which su runs in a session of its own: root sees
// it wait.
func TestOtherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("the kernel shows another user's program to root only")
	}
	if _, err := exec.LookPath("su"); err != nil {
		t.Skip(err)
	}
	for name, c := range map[string]struct{ line, kind string }{
		"read":   {"read x", kindLine},
		"secret": {"stty -echo; read x", kindSecret},
		"poll":   {"exec python3 -I -S -c 'import select; select.select([0], [], [])'", kindLine},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, []string{"su", "-s", "/bin/sh", "-c", c.line, "nobody"})
			var ev Evidence
			polltest.Until(t, "evidence", func() (ok bool) { ev, ok = scanOnce(p.PTY, p.Tree()); return ok })
			if ev.Kind != c.kind || ev.pid == p.PID {
				t.Errorf("got %+v, want kind %s of a child", ev, c.kind)
			}
		})
	}
}
