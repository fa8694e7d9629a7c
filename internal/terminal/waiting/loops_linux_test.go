package waiting

import (
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/test/polltest"
)

// A program that asks again and again is reported to wait once its job does nothing else.
func TestLoops(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 2 s: a loop is watched before it is taken for waiting")
	}
	n := newNursery(t)
	const enough = evidenceTime * 2 / 5
	for name, c := range map[string]struct {
		waits bool // at once; otherwise only once it has printed "done"
		code  string
	}{
		"poll":   {true, `while True: poll(0, timeout=10)`}, // watched for evidenceTime, as outside of tests
		"select": {true, `while True: select.select([0], [], [], 0.2)`},
		"a read that times out, as in jshell": {true, `
m = termios.tcgetattr(0); m[3] &= ~termios.ICANON; m[6][termios.VMIN] = 0; m[6][termios.VTIME] = 1
termios.tcsetattr(0, termios.TCSANOW, m)
while True: os.read(0, 1)`},
		"a pause between two": {true, `
while True: poll(0, timeout=50); time.sleep(0.05)`},
		"beside a process at rest": {true, `
resting()
while True: poll(0, timeout=100)`},

		"prints": {false, `
for i in range(6): poll(0, timeout=80); poll(0, timeout=80); print(i, flush=True)
print("done", flush=True)
while True: poll(0, timeout=200)`},
		"computes": {false, `
end = time.monotonic() + 1
while time.monotonic() < end:
    began = time.process_time()
    while time.process_time() < began + 0.05: pass
    poll(0, timeout=10)
print("done", flush=True)
while True: poll(0, timeout=10)`},
		"beside a process that works": {false, `
def work():
    for i in range(100): time.sleep(0.01)
    print("done", flush=True)
resting(work)
while True: poll(0, timeout=100)`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := n.start(t, c.code)
			w, reported := p.watcher(p.PTY)
			if name != "poll" {
				w.past.enough = enough
			}
			t.Cleanup(w.Start())
			got := nextWaiting(t, reported)
			for name == "prints" && !strings.Contains(got.printed, "done") && got.silent >= enough {
				got = nextWaiting(t, reported) // a busy machine has kept it from printing
			}
			if !c.waits && !strings.Contains(got.printed, "done") {
				t.Errorf("reported to wait after %q: %+v", got.printed, got.Evidence)
			}
		})
	}
}

// A loop can print, and be blocked in its next question, after a scan has begun. On a busy machine
// that output can be the first for a long time that the server has read.
func TestLoopThatPrintsDuringAScan(t *testing.T) {
	p := newNursery(t).start(t, `while True: poll(0, timeout=200)`)
	last, waiting := time.Now(), false
	w := &Watcher{
		Source:     p.PTY,
		Tree:       func() ([]int, error) { last = time.Now(); return p.List() },
		LastOutput: func() time.Time { return last },
		OnChange:   func(_ Evidence, now bool) { waiting = waiting || now },
	}
	for range 2 { // the first scan that sees the loop begins its history
		asked := w.past.asked
		polltest.Until(t, "a question", func() bool {
			w.past.idle = begin(facts{now: time.Now().Add(-2 * evidenceTime), printed: last, used: w.clocks.Used()})
			w.scan()
			return w.past.asked != asked
		})
	}
	if waiting {
		t.Error("taken for idle")
	}
}
