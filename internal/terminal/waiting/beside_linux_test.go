package waiting

import (
	"strings"
	"testing"
	"time"
)

// A program that reads in one thread and works in another takes input, and is not said to wait.
func TestReaderBesideWork(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 1 s: a thread that works beside a reader is given half a second to rest")
	}
	n := newNursery(t)
	for name, c := range map[string]struct{ also, code string }{
		"computes": {threadWorks, `
def work():
    while not stop.is_set(): pass`},
		"prints": {threadPrints, `
def work():
    while not stop.wait(0.05): print(".", flush=True)`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := n.start(t, "stop = threading.Event()\n"+c.code+`
thread(work)
os.read(0, 100)
stop.set()
print("rests", flush=True)
os.read(0, 100)`)
			reported := p.watch(t)
			for got := next(t, reported); got.also != c.also; got = next(t, reported) {
				if got.waiting && name == "computes" {
					t.Fatalf("reported to wait: %+v", got.Evidence)
				}
			}
			p.Send(t, "\n")
			if got := nextWaiting(t, reported); !strings.Contains(got.printed, "rests") {
				t.Errorf("reported to wait after %q", got.printed)
			}
		})
	}
}

// A program that reads from its start on, as erl does, does not wait while its other threads hand work
// to each other, although all of them are parked at times. A program that has to wait for a processor
// seems to rest, so only one that had it counts.
func TestReaderBesideThreadsThatHandWorkToEachOther(t *testing.T) {
	t.Parallel()
	n := newNursery(t)
	for range 10 {
		begin := time.Now()
		p := n.start(t, `
r, w = os.pipe()
def read():
    while True:
        poll(0, r)
        os.read(r, 1)
thread(read)
for n in range(12): # 360 ms in all
    end = time.process_time() + 0.005
    while time.process_time() < end: pass
    time.sleep(0.025)
print("1> ", end="", flush=True)
os.write(w, b".")
time.sleep(1000)`)
		got := nextWaiting(t, p.watch(t))
		if strings.HasSuffix(got.printed, "1> ") {
			return
		}
		if p.WaitPrinted(t, "1> "); time.Since(begin) < 500*time.Millisecond {
			t.Fatalf("reported to wait after %q", got.printed)
		}
	}
	t.Error("ten times, it had no processor and was reported to wait")
}
