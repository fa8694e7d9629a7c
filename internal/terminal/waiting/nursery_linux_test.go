package waiting

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"

	"asyncrepl/internal/terminal/tty"
	"asyncrepl/internal/terminal/tty/ttytest"
	"asyncrepl/internal/test/must"
)

// nurseryProgram starts the programs of TestPolls: to start a Python for each would take most of
// the tests' time. It reads a terminal's path and a program in each line, forks, and prints the
// child's pid. keep saves an object from the collector, which would close its descriptor; resting
// starts a process that shares all descriptors and runs a function or else waits for a signal;
// other's does something again and again, and that of poll_pipe_of runs a function.
const nurseryProgram = `
import ctypes, fcntl, json, os, select, signal, socket, struct, sys, tempfile, termios, threading, time, tty, asyncio, pty
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
def compute():
    while True: pass
def other(): return resting(steps)
def poll_pipe_of(f, *a):
    """Wait for the terminal and for a pipe into which only another process can write, which runs f."""
    r, w = os.pipe()
    resting(f, *a)
    os.close(w)
    poll(0, r)
def connect():
    with socket.create_server(("127.0.0.1", 0)) as s:
        a = socket.create_connection(s.getsockname())
        return a, s.accept()[0]
def connect6():
    with socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True) as s:
        a = socket.create_connection(("127.0.0.1", s.getsockname()[1]))
        return a, s.accept()[0]
def watch():
    fd = libc.inotify_init()
    libc.inotify_add_watch(fd, b"/", 0x100) # IN_CREATE
    return fd
def listen(mode):
    directory = tempfile.mkdtemp(dir=os.getcwd())
    os.chmod(directory, mode)
    s = keep(socket.socket(socket.AF_UNIX))
    s.bind(directory + "/socket")
    s.listen()
    return s
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
	cmd.Dir = t.TempDir()
	in := must.Get(cmd.StdinPipe())(t)
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
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
