package waiting

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/terminal/tty/ttytest"
	"asyncrepl/internal/test/needtest"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/internal/test/racetest"
)

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
		"own pipe":                     {waits, kindLine, `poll(0, *os.pipe()[:1])`},
		"own socket pair":              {waits, kindLine, `a, b = socket.socketpair(); poll(0, a)`},
		"eventfd":                      {waits, kindLine, `poll(0, libc.eventfd(0, 0))`},
		"timerfd":                      {waits, kindLine, `poll(0, libc.timerfd_create(1, 0))`},
		"signalfd":                     {waits, kindLine, `poll(0, libc.signalfd(-1, ctypes.create_string_buffer(128), 0))`},
		"inotify that watches nothing": {waits, kindLine, `poll(0, libc.inotify_init())`},
		"a stopped job in the background": {waits, kindLine, `
job = resting(); os.setpgid(job, job); os.kill(job, signal.SIGSTOP)
os.waitid(os.P_PID, job, os.WSTOPPED | os.WNOWAIT)
poll(0)`},
		"a job in the background that has ended": {waits, kindLine, `
job = resting(int); os.setpgid(job, job)
os.waitid(os.P_PID, job, os.WEXITED | os.WNOWAIT)
poll(0)`},
		"a child in a session of its own": {waits, kindLine, `
other_session = lambda: (os.setsid(), signal.pause())
resting(other_session)
poll(0)`},
		"listens where no other user can connect": {waits, kindLine, `s = listen(0o700); poll(0, s)`},
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

		"listens":                          {accepts, kindLine, `s = socket.create_server(("127.0.0.1", 0)); poll(0, s)`},
		"listens, in an epoll in an epoll": {accepts, kindLine, `s = socket.create_server(("127.0.0.1", 0)); epoll(0, keep(epoll(s))).poll()`},
		"asyncio with a server": {accepts, kindLine, `
async def main():
    server = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
    asyncio.get_running_loop().add_reader(0, lambda: None)
    await server.serve_forever()
asyncio.run(main())`},
		"pipe of another process": {accepts, kindLine, `poll_pipe_of(steps)`},
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
if not pid: steps()
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
		"read, and a thread that computes": {crowded, kindLine, `
thread(compute)
os.read(0, 1)`},
		"read, and a thread that sleeps in short steps": {waits, kindLine, `
def steps():
    while True: libc.usleep(50000)
thread(steps)
os.read(0, 1)`},
		"poll, and a thread that computes": {crowded, kindLine, `
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
			ev, v := scanTree(newProbe(from, p.Tree()), p.List)
			if v > want && v != uncertain && v != crowded { // a thread that has just been woken is at work
				t.Fatalf("got %+v, verdict %d, want %d", ev, v, want)
			}
			return v == want && ev.Kind == kind
		})
	}
	for range manyScans() {
		switch ev, v := scanTree(newProbe(from, p.Tree()), p.List); {
		case v == waits && want != waits, (v == accepts || v == crowded) && want == busy:
			t.Fatalf("got %+v, verdict %d, want %d", ev, v, want)
		case v != uncertain && ev == Evidence{} && want == waits:
			t.Fatalf("verdict %d, want %d", v, want)
		}
	}
}

// manyScans returns how often a test scans a program to show that no scan takes it for another. The
// gate scans less often, both with and without the race detector, and .ci/long more often.
func manyScans() int {
	if testing.Short() || racetest.Enabled {
		return 15
	}
	return 100
}

// TestRealPrograms scans programs that edit lines, as far as the machine has them. TestPrograms of
// cmd/async-repl runs those that the gate can install, and .ci/long installs these.
func TestRealPrograms(t *testing.T) {
	if testing.Short() || racetest.Enabled {
		t.Skip("jshell alone computes for 2 s, and TestLoops has a program that asks as it does")
	}
	for name, c := range map[string]struct {
		argv  []string
		waits bool
		kind  string
	}{
		"vim":    {[]string{"vim", "-u", "NONE", "-i", "NONE"}, true, kindKey},
		"htop":   {[]string{"htop"}, true, kindKey},
		"irb":    {[]string{"irb", "-f"}, true, kindKey},
		"php":    {[]string{"php", "-a"}, true, kindKey}, // its files of settings load readline
		"jshell": {[]string{"jshell", "-R-Duser.home=/nonexistent"}, true, kindKey},
		"script": {[]string{"script", "-q", "-c", "cat", "/dev/null"}, false, kindKey},
	} {
		t.Run(name, func(t *testing.T) {
			needtest.Program(t, c.argv[0])
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
	needtest.Root(t, "see another user's program wait")
	needtest.Program(t, "su")
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
