package waiting

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"asyncrepl/internal/test/polltest"
)

// asksOutside is a program that waits for an answer of a process outside the job.
const asksOutside = `a = socket.socket(socket.AF_UNIX); a.connect("\0" + outside_unix); a.recv(1)`

// readsOf is a program that opens another terminal than its own, prints to it and calls f.
func readsOf(p program, prompt, f string) string {
	return fmt.Sprintf(`fd = os.open(%q, os.O_RDWR | os.O_NOCTTY); os.write(fd, b%q)
%s`, p.PTY.Slave().Name(), prompt, f)
}

// A process outside the job that reads its terminal waits, as pinentry does for gpg, which waits
// for the agent that has started pinentry.
func TestReaderOutside(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 2 s: processes outside the job are searched for once a job has been quiet")
	}
	setRest := func(d time.Duration) { terminals.mu.Lock(); terminals.rest = d; terminals.mu.Unlock() }
	setRest(0)
	t.Cleanup(func() { setRest(censusRest) })
	n := newNursery(t)
	for name, code := range map[string]string{
		"read":                        `os.read(fd, 1)`,
		"poll":                        `poll(fd)`,
		"short polls, as in curses":   `while True: poll(fd, timeout=70)`,
		"a thread that reads":         `thread(os.read, fd, 1); idle()`,
		"before a process of its own": `resting(); os.read(fd, 1)`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := n.start(t, asksOutside)
			w, reported := p.watcher(p.PTY)
			w.past.enough = evidenceTime * 2 / 5
			t.Cleanup(w.Start())
			other := n.start(t, readsOf(p, "passphrase: ", code))
			t.Cleanup(func() { syscall.Kill(-other.PID, syscall.SIGKILL) }) // its children outlive it
			if got := nextWaiting(t, reported); got.pid != other.PID || got.Kind != kindLine {
				t.Errorf("got %+v, want the process %d", got.Evidence, other.PID)
			}
			syscall.Kill(other.PID, syscall.SIGKILL)
			for got := next(t, reported); got.waiting || got.Reads(); got = next(t, reported) {
			}
		})
	}
}

// A process outside the job that has printed nothing is found when it matters: before input is sent.
func TestReadOutside(t *testing.T) {
	n := newNursery(t)
	p := n.start(t, asksOutside)
	reads := func() bool { r, _ := ReadOutside(t.Context(), p.PTY, p.List); return r }
	if reads() {
		t.Error("a reader was found before there was one")
	}
	n.start(t, readsOf(p, "", `os.read(fd, 1)`))
	polltest.Until(t, "the reader", reads)
	idle := n.start(t, `idle()`)
	n.start(t, readsOf(idle, "", `os.read(fd, 1)`))
	if r, unknown := ReadOutside(t.Context(), idle.PTY, idle.List); r || unknown {
		t.Error("searched although no process waits for one outside")
	}
}
