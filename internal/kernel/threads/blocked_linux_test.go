package threads

import (
	"net"
	"os"
	"os/exec"
	"regexp"
	"syscall"
	"testing"
	"time"

	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
	"asyncrepl/internal/test/polltest"
)

// TestBlocked holds what is said of real programs that wait. A program that runs has nothing said.
func TestBlocked(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { l.Close() })
	address := l.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	tests := map[string]struct{ line, want string }{
		"timer":      {"exec sleep 300", `^is in a sleep of 5m0s$`},
		"child":      {"sleep 300; :", `^waits for sleep \(pid \d+\), which is in a sleep of 5m0s$`},
		"grandchild": {"(sleep 300; :); :", `^waits for \S+ \(pid \d+\), which waits for sleep \(pid \d+\), which is in a sleep of 5m0s$`},
		"children":   {"sleep 300 & sleep 300 & wait", `^waits for sleep \(pid \d+\), sleep \(pid \d+\)$`},
		"signal":     {`exec python3 -c "import signal; signal.pause()"`, `^waits for a signal$`},
		"lock":       {`exec python3 -c "import threading; l = threading.Lock(); l.acquire(); l.acquire()"`, `^waits for a lock$`},
		"connection": {`exec python3 -c "import socket; socket.create_connection(('127.0.0.1', ` + port + `)).recv(1)"`, `^waits for a connection to ` + regexp.QuoteMeta(address) + `$`},
		"flooded":    {`exec python3 -c "import socket; socket.create_connection(('127.0.0.1', ` + port + `)).sendall(bytes(1 << 28))"`, `^waits for a connection to ` + regexp.QuoteMeta(address) + `, which takes no more of its output$`},
		"listener":   {`exec python3 -c "import socket; socket.create_server(('127.0.0.1', 0)).accept()"`, `^listens on 127\.0\.0\.1:\d+$`},
		"pipe":       {`sleep 300 | cat`, `^waits for (sleep|cat) \(pid \d+\), (sleep|cat) \(pid \d+\)$`},
		"unread":     {`exec yes`, `^waits for a pipe, which takes no more of its output$`},
		"threads":    {`exec python3 -c "import threading, time; threading.Thread(target=time.sleep, args=(300,)).start(); signal = threading.Event(); signal.wait()"`, `^(sleeps, for 4m\d+s more|sleeps, for 5m0s more|is in a sleep of 5m0s)$`},
		"computes":   {`while :; do :; done`, `^$`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, w := must.Get2(os.Pipe())(t)
			defer r.Close()
			defer w.Close()
			cmd := exec.Command("bash", "-c", test.line)
			cmd.Stdout, cmd.SysProcAttr = w, &syscall.SysProcAttr{Setpgid: true}
			must.Do(t, cmd.Start())
			defer cmd.Wait()
			defer syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			var said string
			var since time.Duration
			polltest.Until(t, test.want, func() bool {
				said, since = Blocked(cmd.Process.Pid)
				return regexp.MustCompile(test.want).MatchString(said)
			})
			if said == "" {
				return
			}
			polltest.Until(t, "time to pass", func() bool {
				_, later := Blocked(cmd.Process.Pid)
				return later == 0 && since == 0 || later > since+10*time.Millisecond
			})
		})
	}
}

// Of a process that waits for a lock of a file, the file is named.
func TestBlockedByAFileLock(t *testing.T) {
	path := t.TempDir() + "/lock"
	f := must.Get(os.Create(path))(t)
	defer f.Close()
	must.Do(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX))
	cmd := exec.Command(needtest.Program(t, "flock"), path, "true")
	must.Do(t, cmd.Start())
	defer cmd.Wait()
	defer cmd.Process.Kill()
	polltest.Until(t, "the lock", func() bool {
		said, _ := Blocked(cmd.Process.Pid)
		return said == "waits for a lock of "+path
	})
}

func TestBlockedOfNoProcess(t *testing.T) {
	if said, since := Blocked(1 << 30); said != "" || since != 0 {
		t.Errorf("%q for %v", said, since)
	}
}
