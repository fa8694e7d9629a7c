//go:build linux

package process

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"asyncrepl/internal/kernel/threads"
	"asyncrepl/internal/process/ladder"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"

	"github.com/google/go-cmp/cmp"
)

// raising asks for the next of its rungs as soon as the one before has been tried, so that no test
// depends on how long a busy machine takes for a step.
type raising struct {
	rungs []ladder.Rung

	mu      sync.Mutex
	tried   []ladder.Rung
	changed chan struct{}
}

func (r *raising) Wanted() (ladder.Rung, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return r.rungs[min(len(r.tried), len(r.rungs)-1)], r.changed
}

func (r *raising) Trying(rung ladder.Rung) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tried = append(r.tried, rung)
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// forgetful ignores SIGTERM and executes another program when it receives SIGHUP. That program must
// receive a SIGHUP too.
const forgetful = `python3 -c 'if 1:
	import os, signal
	signal.signal(signal.SIGTERM, signal.SIG_IGN)
	signal.signal(signal.SIGHUP, lambda *_: os.execlp("sleep", "sleep", "%[1]s"))
	print("up", flush=True)
	while True: signal.pause()' %[1]s`

func TestStop(test *testing.T) {
	type r = []ladder.Rung
	const i, t, k = ladder.Interrupt, ladder.Terminate, ladder.Kill
	tests := []struct {
		name   string
		script string // %[1]s is the tag; it prints "up" when it is ready
		count  int    // of processes with the tag
		needed []ladder.Rung
		rest   []ladder.Rung
	}{
		{"sleep", `sleep %[1]s & echo up; wait`, 1, r{i}, nil},
		{"busy", `sleep %[1]s & echo up; while :; do :; done`, 1, r{i}, nil},
		{"ignores the interrupt", `trap '' INT; echo up; sleep %[1]s`, 1, r{i, t}, nil},
		{"ignores all", `trap '' TERM HUP INT; sleep %[1]s & echo up; while :; do sleep 0.01; done`, 1, r{i, t, k}, nil},
		{"from terminate", `sleep %[1]s & echo up; wait`, 1, r{t}, nil},
		{"from kill", `sleep %[1]s & echo up; wait`, 1, r{k}, nil},
		{"stopped", `sleep %[1]s & until grep -qx sleep /proc/$!/comm; do :; done; kill -STOP $!; echo up; kill -STOP $$; wait`, 1, r{i}, nil},
		{"interactive shell", `exec bash --norc -i -c 'echo up; sleep %[1]s & wait; exec bash --norc -i'`, 1, r{t}, nil},
		{"forgets the hangup", `exec ` + forgetful, 1, r{t}, nil},
		{"rest forgets the hangup", `setsid ` + forgetful + ` & wait`, 1, r{i}, r{t}},
		{"nohup", `nohup sleep %[1]s >/dev/null 2>&1 & echo up; wait`, 1, r{i}, r{t}},
		{"setsid", `setsid sleep %[1]s & echo up; wait`, 1, r{i}, r{t}},
		{"double fork", `(sleep %[1]s &) ; (setsid sleep %[1]s &) ; echo up; sleep 1000`, 2, r{i}, r{t}},
		{"env -i setsid", `(env -i setsid sleep %[1]s </dev/null >/dev/null 2>&1 &) ; echo up; sleep 1000`, 1, r{i}, r{t}},
		{"rest ignores all", `(trap '' TERM HUP INT; setsid sleep %[1]s) & echo up; wait`, 1, r{i}, r{t, k}},
		{"groups", `set -m; sleep %[1]s & sleep %[1]s & echo up; wait`, 2, r{i}, r{t}},
		{"python daemon", `exec python3 -c 'if 1:
	import os, signal, time
	for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP): signal.signal(s, signal.SIG_IGN)
	for i in range(3):
		if os.fork() == 0:
			if not os.setsid() and os.fork() == 0: os.execvpe("sleep", ["sleep", "%[1]s"], {})
			os._exit(0)
		os.wait()
	print("up", flush=True)
	while True: time.sleep(1)'`, 3, r{i, t, k}, nil},
	}
	for _, tt := range tests {
		test.Run(tt.name, func(t *testing.T) {
			o := newOwner(t)
			if tt.rest == nil { // enough time to die of the hangup
				o.settle = 2 * patience
			}
			o.remaining = patience
			if slices.Contains(tt.rest, ladder.Kill) {
				o.remaining = 100 * time.Millisecond
			}
			tag := tag()
			j := onTTY(t, o, "job", fmt.Sprintf(tt.script, tag))
			j.says(t, "up")
			grown(t, tag, tt.count)
			if tt.name == "stopped" {
				polltest.Until(t, "the leader to stop", func() bool { e, _ := inspect(j.PID()); return e.State == 'T' })
			} else if strings.HasSuffix(tt.script, "wait") { // a shell that is only about to wait drops an interrupt
				polltest.Until(t, "the leader to wait", func() bool {
					c, err := threads.Thread{PID: j.PID(), TID: j.PID()}.BlockedIn()
					return err == nil && (c.AwaitsChild() || c.Parked())
				})
			}
			requests := &raising{rungs: tt.needed}
			c := j.Stop(Ladder{Step: patience, Requests: requests})
			if want := (StopResult{Needed: tt.needed, Escalated: tt.rest}); !cmp.Equal(c, want) {
				t.Errorf("got %v, want %v", c, want)
			}
			if all := slices.Concat(c.Needed, c.Escalated); !slices.Equal(requests.tried, all) {
				t.Errorf("tried %v, but %v were needed", requests.tried, all)
			}
			gone(t, tag)
			if !over(j.Done()) {
				t.Error("the leader has not been reaped")
			}
			if hungUp, left := j.Settle(); hungUp != nil || left != nil {
				t.Errorf("hung up %v, left %v", hungUp, left)
			}
		})
	}
}

// bombs keep starting processes, each in its own way, while they are being killed. None grows
// beyond a few hundred processes, and processes that escape end by themselves in time.
var bombs = map[string]string{
	"forks": `
for i in range(5):
	os.fork()
	time.sleep(0.005)
while time.time() < limit:
	if os.fork() == 0:
		time.sleep(0.05)
		os._exit(0)
	time.sleep(0.02)
	try:
		while os.waitpid(-1, os.WNOHANG)[0]: pass
	except ChildProcessError: pass
`,
	"leaves the session": `
for i in range(4): os.fork()
while time.time() < limit:
	time.sleep(0.01)
	if os.fork(): os._exit(0)
	os.setsid()
`,
	"hides too": `
if len(sys.argv) == 2: # the first
	for i in range(3): os.fork()
while time.time() < limit:
	time.sleep(0.01)
	if os.fork(): os._exit(0)
	os.setsid()
	os.execve(sys.executable, ["python3", "-S", *sys.argv[:2], "again"], {})
`,
}

func TestStopEndsBombs(t *testing.T) {
	if testing.Short() {
		t.Skip("starts hundreds of processes")
	}
	for name, body := range bombs {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "bomb.py")
			head := fmt.Sprintf(`import os, signal, sys, time
for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP): signal.signal(s, signal.SIG_IGN)
limit = %d
`, time.Now().Add(2*patience).Unix())
			must.Do(t, os.WriteFile(file, []byte(head+body), 0o600))
			o := newOwner(t)
			onTTY(t, o, "other", "read")
			tag := tag()
			j := onTTY(t, o, "job", "python3 -S "+file+" "+tag+" & sleep 1000")
			seen := make(map[int]bool) // none lives for long
			polltest.Until(t, "it to grow", func() bool {
				for _, p := range tagged(tag) {
					seen[p.PID] = true
				}
				return len(seen) > 4
			})
			if c := j.Stop(Ladder{From: ladder.Kill}); c.Survivors != nil {
				t.Errorf("survivors %v", c.Survivors)
			}
			gone(t, tag)
			if u := o.Unattributed(); u != nil {
				t.Errorf("unattributed %v", u)
			}
		})
	}
}

// Without requests a stop escalates after each step. A request for a higher rung takes effect at
// once.
func TestStopEscalates(t *testing.T) {
	tests := []struct {
		name     string
		requests *raising
		step     time.Duration
		want     []ladder.Rung
	}{
		{"by steps", nil, 50 * time.Millisecond, rungs},
		{"raised", &raising{rungs: []ladder.Rung{ladder.Interrupt, ladder.Kill}}, 2 * patience, []ladder.Rung{ladder.Interrupt, ladder.Kill}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := newOwner(t)
			j := onTTY(t, o, "job", `trap '' TERM HUP INT; echo up; while :; do sleep 0.01; done`)
			j.says(t, "up")
			begin := time.Now()
			l := Ladder{Step: tt.step}
			if tt.requests != nil {
				l.Requests = tt.requests
			}
			if got, want := j.Stop(l), (StopResult{Needed: tt.want}); !cmp.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
			if d := time.Since(begin); tt.requests == nil && d < 2*tt.step || d > patience {
				t.Errorf("it took %v with steps of %v", d, tt.step)
			}
		})
	}
}

// With Keep, a worker whose code was interrupted keeps running, with its children.
func TestStopKeepsTheTree(t *testing.T) {
	o := newOwner(t)
	tag := tag()
	j := onTTY(t, o, "job", `trap 'echo took it' INT; nohup setsid sleep `+tag+` & echo up; while :; do read -t 0.01; done`)
	j.says(t, "up")
	grown(t, tag, 1)
	done := make(chan struct{})
	c := j.Stop(Ladder{Over: done, Keep: true, Step: patience, Interrupt: func() error {
		err := j.Handle.Interrupt()
		j.says(t, "took it")
		close(done)
		return err
	}})
	if want := (StopResult{Needed: []ladder.Rung{ladder.Interrupt}}); !cmp.Equal(c, want) {
		t.Errorf("got %v, want %v", c, want)
	}
	if n := len(tagged(tag)); n != 1 || over(j.Done()) {
		t.Errorf("%d children are left, want 1; the leader has ended: %v", n, over(j.Done()))
	}
}

// A stop of a job that is over needs no rung for the leader, and ends the processes that it left.
func TestStopAfterTheEnd(t *testing.T) {
	for from, rest := range map[ladder.Rung][]ladder.Rung{ladder.Interrupt: {ladder.Terminate, ladder.Kill}, ladder.Terminate: {ladder.Terminate, ladder.Kill}, ladder.Kill: {ladder.Kill}} {
		t.Run(string(from), func(t *testing.T) {
			o := newOwner(t)
			o.remaining = 100 * time.Millisecond
			tag := tag()
			j := onTTY(t, o, "job", `trap '' HUP TERM; sleep `+tag+` & until grep -qx sleep /proc/$!/comm; do :; done; exit 5`)
			ends(t, j.Handle)
			_, left := j.Settle()
			if programs(left) != "sleep" {
				t.Fatalf("left %v, want a sleep", left)
			}
			if over(j.TreeGone()) {
				t.Error("the tree is said to be gone with a process left")
			}
			if c, want := j.Stop(Ladder{From: from}), (StopResult{Escalated: rest}); !cmp.Equal(c, want) {
				t.Errorf("got %v, want %v", c, want)
			}
			gone(t, tag)
			polltest.Until(t, "the tree to be gone", func() bool { return over(j.TreeGone()) })
			if got := j.Exit(); got.Code != 5 {
				t.Errorf("exit %+v, want 5", got)
			}
		})
	}
}

// A stop of one job touches no other job.
func TestStopTouchesNoOtherJob(t *testing.T) {
	o := newOwner(t)
	mine, others := tag(), tag()
	other := onTTY(t, o, "other", `nohup setsid sleep `+others+` & sleep `+others+` & echo up; wait`)
	other.says(t, "up")
	grown(t, others, 2)
	for _, from := range rungs {
		j := onTTY(t, o, "job", `setsid sleep `+mine+` & sleep `+mine+` & echo up; wait`)
		j.says(t, "up")
		grown(t, mine, 2)
		if c := j.Stop(Ladder{From: from}); c.Survivors != nil {
			t.Errorf("survivors %v", c.Survivors)
		}
		gone(t, mine)
	}
	if n := len(tagged(others)); n != 2 || over(other.Done()) {
		t.Errorf("%d of the other job's two are left", n)
	}
}

func TestShutdownEndsEverything(t *testing.T) {
	o := newOwner(t)
	tag := tag()
	scripts := []string{
		`sleep %[1]s & sleep %[1]s`,
		`trap '' TERM HUP INT; sleep %[1]s & while :; do sleep 0.1; done`,
		`sleep %[1]s & until grep -qx sleep /proc/$!/comm; do :; done; kill -STOP $!; kill -STOP $$`,
		`(nohup setsid sleep %[1]s >/dev/null 2>&1 &) ; sleep %[1]s`,
		`(env -i setsid sleep %[1]s </dev/null >/dev/null 2>&1 &) ; sleep %[1]s`,
		`setsid sleep %[1]s >/dev/null 2>&1 </dev/null & exit`,
	}
	var hs []*Handle
	for i := range 30 {
		hs = append(hs, onPipe(t, o, fmt.Sprint("job", i), fmt.Sprintf(scripts[i%len(scripts)], tag)).Handle)
	}
	grown(t, tag, 5*(2+1+1+2+2+1))
	o.limit = patience
	o.Shutdown()
	gone(t, tag)
	for _, h := range hs {
		ends(t, h)
	}
}

// A program that exits on SIGTERM gets the time to do so in its own way.
func TestShutdownLetsProgramsExit(t *testing.T) {
	o := newOwner(t)
	j := onPipe(t, o, "job", `trap 'echo bye; exit 6' TERM; trap '' HUP; echo up; while :; do sleep 0.01; done`)
	j.says(t, "up")
	o.grace, o.limit = patience, 2*patience
	begin := time.Now()
	o.Shutdown()
	if d := time.Since(begin); d >= o.grace {
		t.Errorf("shutdown took %v although all had ended at once", d)
	}
	j.pump.Drain()
	if got := j.Exit(); got.Code != 6 || !strings.Contains(j.output(), "bye") {
		t.Errorf("got %+v and output %q, want exit 6 and the word bye", got, j.output())
	}
}

// exitsByItself is a script that reports each signal, and exits 6 when its file exists. Its child
// dies of SIGTERM.
const exitsByItself = `trap 'echo hit' TERM HUP INT; sleep %s & echo up; wait $!; echo "child $?"; until [ -e %s ]; do :; done; exit 6`

// Shutdown and Stop give a leader that was asked to exit the time to do so. No signal reaches it;
// its children are ended meanwhile.
func TestLeaderExitsByItself(t *testing.T) {
	for name, end := range map[string]func(o *Owner, j *job){
		"shutdown": func(o *Owner, j *job) { o.Shutdown() },
		"stop":     func(_ *Owner, j *job) { j.Stop(Ladder{From: ladder.Terminate, Exit: patience}) },
	} {
		t.Run(name, func(t *testing.T) {
			o := newOwner(t)
			o.exit, o.limit = patience, 2*patience
			tag, done := tag(), filepath.Join(t.TempDir(), "done")
			j := onTTY(t, o, "job", fmt.Sprintf(exitsByItself, tag, done))
			j.says(t, "up")
			grown(t, tag, 1)
			j.LetExit()
			ended := make(chan struct{})
			go func() { // ends when the leader has
				defer close(ended)
				end(o, j)
			}()
			j.says(t, "child 1") // by SIGHUP or SIGTERM
			must.Do(t, os.WriteFile(done, nil, 0o600))
			<-ended
			j.pump.Drain()
			if got := j.Exit(); got.Code != 6 || strings.Contains(j.output(), "hit") {
				t.Errorf("got %+v and output %q, want exit 6 and no signal", got, j.output())
			}
			gone(t, tag)
		})
	}
}

// A leader that does not exit in its time is ended with the rest.
func TestLeaderDoesNotExit(t *testing.T) {
	o := newOwner(t)
	tag := tag()
	stays := `trap '' HUP TERM; echo up; while :; do sleep %s; done`
	j, other := onTTY(t, o, "job", fmt.Sprintf(stays, tag)), onTTY(t, o, "other", fmt.Sprintf(stays, tag))
	j.says(t, "up")
	other.says(t, "up")
	grown(t, tag, 2)
	if got := j.Stop(Ladder{From: ladder.Terminate, Step: time.Millisecond, Exit: time.Millisecond}); !slices.Contains(got.Needed, ladder.Kill) {
		t.Errorf("the stop needed %v", got.Needed)
	}
	o.limit = patience
	other.LetExit()
	o.Shutdown()
	gone(t, tag)
}
