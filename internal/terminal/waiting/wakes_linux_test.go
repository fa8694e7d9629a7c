package waiting

import (
	"regexp"
	"testing"

	"asyncrepl/internal/test/polltest"
)

// otherNamespace moves a program to a network namespace of its own, if it may.
const otherNamespace = `
if not libc.unshare(0x40000000):
    fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh14x", b"lo", 65)) # up`

// TestOtherEnds scans programs that wait for the terminal and for ends of pipes, socket pairs and
// connections whose other ends processes of the same job hold. The program waits for input if those
// are at rest.
func TestOtherEnds(t *testing.T) {
	n := newNursery(t)
	for name, c := range map[string]struct {
		want verdict
		code string
	}{
		"a pipe of a process that waits for a signal": {waits, `poll_pipe_of(signal.pause)`},
		"a pipe that is shared with a process that sleeps for long": {waits, `
r, w = os.pipe()
resting(libc.sleep, 1000)
poll(0, r)`},
		"a pipe of a process in a futex": {waits, `poll_pipe_of(threading.Event().wait, 1000)`},
		"a pipe of a process that waits for its child": {waits, `
r, w = os.pipe()
def parent():
    child = os.fork()
    if not child:
        os.close(w)
        steps()
    os.waitpid(child, 0)
resting(parent)
os.close(w); poll(0, r)`},
		"a pipe of a process that polls for long": {waits, `poll_pipe_of(poll, libc.eventfd(0, 0))`},
		"a pipe of a process that is stopped": {waits, `
r, w = os.pipe()
os.kill(other(), signal.SIGSTOP)
os.close(w); poll(0, r)`},
		"a pipe of a process that waits for the terminal, too": {waits, `poll_pipe_of(poll, 0)`},
		"processes that wait for one another": {waits, `
a, b = socket.socketpair(); c, d = socket.socketpair()
def first(): b.close(); d.close(); a.recv(1)
def second(): a.close(); c.close(); poll(b, d)
resting(first); resting(second)
a.close(); b.close(); d.close(); poll(0, c)`},
		"a pipe of a process whose pipe is of one that waits for a signal": {waits, `
r, w = os.pipe(); r2, w2 = os.pipe()
resting()
os.close(w2); resting(os.read, r2, 1)
os.close(w); os.close(r2); poll(0, r)`},
		"a full pipe to a process that does not read": {waits, `
r, w = os.pipe()
resting()
os.close(r); os.set_blocking(w, False)
try:
    while True: os.write(w, bytes(65536))
except BlockingIOError: pass
p = select.poll(); p.register(0, select.POLLIN); p.register(w, select.POLLOUT); p.poll()`},
		"a socket pair with a process that reads it": {waits, `
a, b = socket.socketpair()
resting(b.recv, 1)
b.close(); select.select([0, a], [], [])`},
		"a connection to a process that reads it": {waits, `
a, b = connect()
resting(b.recv, 1)
b.close(); poll(0, a)`},
		"a connection over IPv4 to a socket for IPv6": {waits, `
a, b = connect6()
resting(b.recv, 1)
b.close(); poll(0, a)`},
		"a connection in another network namespace": {waits, otherNamespace + `
a, b = connect()
resting(b.recv, 1)
b.close(); poll(0, a)`},
		"a connection in another network namespace to a process that works": {accepts, otherNamespace + `
a, b = connect()
other()
b.close(); poll(0, a)`},
		"a connection to itself": {waits, `a, b = connect(); poll(0, a)`},
		"read, and a thread that receives from a process at rest": {waits, `
a, b = connect()
resting(b.recv, 1)
b.close(); blocked(a.recv, 1); os.read(0, 1)`},
		"poll, and a thread that has ended": {waits, `
thread(poll, 0, libc.eventfd(0, 0)); end_first_thread()`},
		"a pipe of a process whose first thread has ended": {waits, `
def threads(): thread(os.read, libc.eventfd(0, 0), 8); end_first_thread()
poll_pipe_of(threads)`},
		"a pipe that a process had that has ended": {waits, `
r, w = os.pipe()
os.waitid(os.P_PID, resting(int), os.WEXITED | os.WNOWAIT)
poll(0, r)`},

		"a terminal of its own, of a process that reads it": {looping, `
m, s = os.openpty()
resting(os.read, s, 1)
os.close(s); poll(0, m)`},
		"a terminal of its own, of a process that polls it": {looping, `
m, s = os.openpty()
resting(poll, s)
os.close(s); poll(0, m)`},
		"a terminal of its own, of a process that reads nothing": {accepts, `
m, s = os.openpty()
resting(idle)
os.close(s); poll(0, m)`},
		"a terminal of its own, of a process that works": {accepts, `
m, s = os.openpty()
other()
os.close(s); poll(0, m)`},
		"a terminal that a process has made that reads it": {looping, `
m, s = os.openpty()
resting(os.read, m, 1)
os.close(m); poll(0, s)`},

		"a pipe of a process that wakes for a moment": {accepts, `
def short():
    while True: poll(libc.eventfd(0, 0), timeout=10)
poll_pipe_of(short)`},
		"a pipe of a process with a thread that wakes": {accepts, `
def threads(): thread(steps); signal.pause()
poll_pipe_of(threads)`},
		"a pipe of a process that computes": {accepts, `poll_pipe_of(compute)`},
		"a pipe of a process that listens":  {accepts, `poll_pipe_of(socket.create_server(("127.0.0.1", 0)).accept)`},
		"a pipe of a process whose pipe is of one that works": {accepts, `
r, w = os.pipe(); r2, w2 = os.pipe()
other()
os.close(w2); resting(os.read, r2, 1)
os.close(w); os.close(r2); poll(0, r)`},
		"a pipe of a process whose first thread has ended and another works": {accepts, `
def threads(): thread(steps); end_first_thread()
poll_pipe_of(threads)`},
		"a pipe of a process with a timer": {accepts, `
timer = libc.timerfd_create(1, 0)
libc.timerfd_settime(timer, 0, (ctypes.c_long * 4)(0, 20000000, 0, 20000000), None)
def ticks():
    while True: poll(timer); os.read(timer, 8)
poll_pipe_of(ticks)`},
		"a timer that has expired": {accepts, `
timer = libc.timerfd_create(1, 0)
libc.timerfd_settime(timer, 0, (ctypes.c_long * 4)(0, 20000000, 0, 1), None)
poll(timer)
p = select.poll(); p.register(0, select.POLLIN); p.register(timer, select.POLLERR); p.poll()`},
		"a connection to a process that works": {accepts, `
a, b = connect()
other()
b.close(); poll(0, a)`},
		"a connection to a process outside": {accepts, `
a = socket.create_connection(("127.0.0.1", outside)); poll(0, a)`},
		"a Unix socket of a process outside": {accepts, `
a = socket.socket(socket.AF_UNIX); a.connect("\0" + outside_unix); poll(0, a)`},
		"poll, and a thread that has ended, and one that works": {crowded, `
thread(compute); thread(poll, 0, libc.eventfd(0, 0)); end_first_thread()`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := n.start(t, c.code)
			p.holds(t, p.PTY, c.want, kindLine)
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
		"terminal":         {`waits for python3 \(pid \d+\)`, `a, b = pty.openpty(); other(); os.close(b); poll(0, a)`},
		"end of a process": {`waits for the end of a process`, `poll(0, os.pidfd_open(os.getppid()))`},
		"timer": {`waits for a timer`, `
timer = libc.timerfd_create(1, 0)
libc.timerfd_settime(timer, 0, (ctypes.c_long * 4)(0, 20000000, 0, 20000000), None)
while True: poll(0, timer); os.read(timer, 8)`},
		"child": {`waits for a child`, `other(); blocked(os.wait); poll(0)`},
		"short wait, and a process": {`runs beside python3 \(pid \d+\)`, `
other()
while True: poll(0, timeout=200)`},
		"files":                            {`waits for a change of files`, `poll(0, watch())`},
		"files, in a thread":               {`waits for a change of files`, `blocked(os.read, watch(), 100); os.read(0, 1)`},
		"job in the background":            {`has python3 \(pid \d+\) in the background`, `job = resting(); os.setpgid(job, job); poll(0)`},
		"job in the background, of a read": {`has python3 \(pid \d+\) in the background`, `job = resting(); os.setpgid(job, job); os.read(0, 1)`},
		"service on a Unix socket":         {`waits for a Unix socket`, `s = listen(0o755); poll(0, s)`},
		"thread of a read":                 {`listens on 127\.0\.0\.1:\d+`, `s = socket.create_server(("127.0.0.1", 0)); blocked(s.accept); os.read(0, 1)`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := n.start(t, c.code)
			want := regexp.MustCompile(`^read by python3 \(pid \d+\), which also (` + c.want + `)$`)
			polltest.Until(t, c.want, func() bool {
				ev, v := scanTree(newProbe(p.PTY, p.Tree()), p.List)
				if v == waits {
					t.Fatalf("got %+v, verdict %d", ev, v)
				}
				return v == accepts && want.MatchString(ev.By())
			})
		})
	}
}
