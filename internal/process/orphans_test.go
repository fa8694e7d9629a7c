//go:build linux

package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/process/ladder"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
)

// While other jobs run, an orphan is attributed to its job by each kind of evidence alone.
func TestOrphans(t *testing.T) {
	tests := []struct {
		name   string
		start  func(t testing.TB, o *Owner, mark, script string) *job
		script string // %s is the tag
		before bool   // the tree is scanned while the parents live
	}{
		{"session", onPipe, `(env -i sleep %s <&- >&- 2>&- &) ; sleep 1000`, false},
		{"mark", onPipe, `(setsid sleep %s <&- >&- 2>&- &) ; sleep 1000`, false},
		{"terminal", onTTY, `(env -i setsid sleep %s >&- &) ; sleep 1000`, false},
		{"pipe", onPipe, `(env -i setsid sleep %s <&- 2>&- &) ; sleep 1000`, false},
		{"ancestry", onPipe, `(env -i setsid sleep %s <&- >&- 2>&- & read </dev/fd/0) ; sleep 1000`, true},
		{"session of another", onPipe, `env -i setsid bash -c 'sleep %s & echo $!; sleep 0.01; sleep 1000' <&- 2>&- & sleep 1000`, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := newOwner(t)
			onPipe(t, o, "other", `sleep 1000`)
			tag := tag()
			script := fmt.Sprintf(tt.script, tag)
			if tt.name == "ancestry" {
				script = strings.Replace(script, "read </dev/fd/0", "sleep 1000.5", 1)
			}
			j := tt.start(t, o, "job", script)
			onPipe(t, o, "third", `sleep 1000`)
			p := grown(t, tag, 1)[0]
			if tt.before {
				polltest.Until(t, "the process in the tree", func() bool { return slices.ContainsFunc(j.Tree(), same(p)) })
				for parent := p.Parent; parent != j.PID(); { // kill its parents up to the leader
					e, ok := inspect(parent)
					if !ok {
						break
					}
					e.Process.Signal(syscall.SIGKILL)
					parent = e.Parent
				}
			}
			orphaned(t, p)
			if !slices.ContainsFunc(j.Tree(), same(p)) {
				t.Errorf("%v is not in the tree %v; unattributed %v", p, j.Tree(), o.Unattributed())
			}
			if c := j.Stop(Ladder{From: ladder.Kill}); c.Survivors != nil {
				t.Errorf("survivors %v", c.Survivors)
			}
			gone(t, tag)
		})
	}
}

// orphaned waits until p has come to us, and scans.
func orphaned(t testing.TB, p procfs.Process) {
	t.Helper()
	polltest.Until(t, "the orphan to come to us", func() bool {
		e, ok := inspect(p.PID)
		return ok && e.Parent == os.Getpid()
	})
	reaper.scan()
}

func same(p procfs.Process) func(procfs.Process) bool {
	return func(q procfs.Process) bool { return q.PID == p.PID && q.Start == p.Start }
}

// escape returns a script that starts a process without any evidence of its job.
func escape(tag string) string {
	return `(env -i setsid sleep ` + tag + ` </dev/null >/dev/null 2>&1 & until grep -qx sleep /proc/$!/comm; do :; done); echo escaped; read x; exit $x`
}

// escapes starts a job with a descendant that shows no evidence of it. Other jobs must run, so that
// the descendant becomes an unattributed orphan. It tries again, because a scan can have seen the
// descendant in the job's tree before its parents had ended.
func escapes(t testing.TB, o *Owner, mark string) (j *job, p procfs.Process, tagOf string) {
	t.Helper()
	for {
		tagOf = tag()
		j = onTTY(t, o, mark, escape(tagOf))
		j.says(t, "escaped")
		p = grown(t, tagOf, 1)[0]
		orphaned(t, p)
		if slices.ContainsFunc(reaper.unattributed(func(*orphan) bool { return true }), same(p)) {
			return j, p, tagOf
		}
		end(t, j.Handle)
	}
}

func TestOrphanOfTheOnlyJob(t *testing.T) {
	o := newOwner(t)
	tag := tag()
	j := onTTY(t, o, "job", escape(tag))
	j.says(t, "escaped")
	p := grown(t, tag, 1)[0]
	polltest.Until(t, "the orphan in the tree of the only job", func() bool {
		reaper.scan()
		return slices.ContainsFunc(j.Tree(), same(p))
	})
	if u := o.Unattributed(); u != nil {
		t.Errorf("unattributed %v", u)
	}
}

func TestUnattributed(t *testing.T) {
	for _, how := range []string{"the last ends", "the last is cancelled", "shutdown"} {
		t.Run(how, func(t *testing.T) {
			o := newOwner(t)
			o.limit = patience // no process is left to a guard, however busy the machine is
			other := onTTY(t, o, "other", `read x`)
			j, p, tag := escapes(t, o, "job")
			later := onTTY(t, o, "later", `read x`)
			for _, h := range []*job{j, other} {
				if u := h.Unattributed(); len(u) != 1 || !same(p)(u[0]) {
					t.Errorf("unattributed of a candidate: %v", u)
				}
			}
			if u := later.Unattributed(); u != nil {
				t.Errorf("unattributed of a job that started later: %v", u)
			}
			if slices.ContainsFunc(j.Tree(), same(p)) {
				t.Errorf("attributed to a job: %v", j.Tree())
			}
			finish(t, j)
			if len(tagged(tag)) != 1 {
				t.Error("it has ended although a candidate still runs")
			}
			switch how {
			case "the last ends":
				finish(t, other)
			case "the last is cancelled":
				other.Stop(Ladder{})
			default:
				o.Shutdown()
				gone(t, tag)
			}
			polltest.Until(t, "its end", func() bool { return len(tagged(tag)) == 0 })
		})
	}
}

// An orphan without evidence is checked again: one that came to us during an exec had no
// environment.
func TestOrphanIsAttributedLater(t *testing.T) {
	o := newOwner(t)
	tag := tag()
	onTTY(t, o, "other", `read x`)
	j, gate := above(t, o, "job", `ASYNC_REPL_JOB=job exec bash -c "sleep `+tag+` & wait"`)
	open(t, gate)
	p := grown(t, tag, 1)[0]
	polltest.Until(t, "the orphan to be the job's", func() bool {
		reaper.scan()
		return slices.ContainsFunc(j.Tree(), same(p))
	})
	if u := j.Unattributed(); u != nil { // those of earlier tries have the other job as a candidate
		t.Errorf("unattributed %v", u)
	}
}

// below returns a script that starts an orphan without evidence. The orphan executes rest in bash
// when a line comes through the gate.
func below(dir, rest string) (script, gate string) {
	gate, up := filepath.Join(dir, "gate"), filepath.Join(dir, "up")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		panic(err)
	}
	return fmt.Sprintf(`(env -i setsid bash -c ': >%s; read x <%s; %s' </dev/null >/dev/null 2>&1 & until [ -e %[1]s ]; do :; done)`, up, gate, rest), gate
}

// above starts a job that is one of the candidates of an orphan without evidence, see below.
func above(t testing.TB, o *Owner, mark, rest string) (j *job, gate string) {
	t.Helper()
	for { // again, if a scan saw the orphan in the job's tree before its parents had ended
		script, gate := below(t.TempDir(), rest)
		j := onTTY(t, o, mark, script+`; echo orphaned; read x`)
		j.says(t, "orphaned")
		if programs(o.Unattributed()) == "bash" {
			return j, gate
		}
		end(t, j.Handle)
	}
}

// ignoresAll returns a command that starts a process that only SIGKILL ends, in a session of its
// own.
func ignoresAll(tag string) string {
	return `env -i setsid bash -c "trap \"\" TERM HUP; exec sleep ` + tag + `"`
}

func open(t testing.TB, gate string) {
	t.Helper()
	must.Do(t, os.WriteFile(gate, []byte("\n"), 0))
}

func finish(t testing.TB, jobs ...*job) {
	t.Helper()
	for _, j := range jobs {
		say(t, j.pty, "\n")
		ends(t, j.Handle)
	}
}

// The candidates of an unattributed orphan are the only candidates of its descendants, even after
// they have ended.
func TestDescendantsHaveTheSameCandidates(t *testing.T) {
	if testing.Short() {
		t.Skip("each of its five cases starts a guard")
	}
	unattributed := func(t *testing.T, p procfs.Process, j *job) {
		t.Helper()
		if slices.ContainsFunc(j.Tree(), same(p)) || !slices.ContainsFunc(j.Unattributed(), same(p)) {
			t.Errorf("%v: got tree %v, unattributed %v, want it unattributed", p, j.Tree(), j.Unattributed())
		}
	}
	tests := []struct {
		name string
		rest func(tag string) string
		then func(t *testing.T, o *Owner, tag, gate string, parent procfs.Process, a, b *job)
	}{
		{"its jobs end", func(tag string) string { return ignoresAll(tag) + " & wait" },
			func(t *testing.T, o *Owner, tag, gate string, _ procfs.Process, a, b *job) {
				later := onTTY(t, o, "later", `read x`)
				open(t, gate)
				grown(t, tag, 1)
				reaper.scan()
				finish(t, b, a)
				polltest.Until(t, "its end, though another job runs", func() bool {
					if tree := programs(later.Tree()); tree != "bash" {
						t.Fatalf("attributed to another job: %v", tree)
					}
					return len(tagged(tag)) == 0
				})
			}},
		{"shutdown", func(tag string) string { return ignoresAll(tag) + " & wait" },
			func(t *testing.T, o *Owner, tag, gate string, _ procfs.Process, a, b *job) {
				open(t, gate)
				grown(t, tag, 1)
				finish(t, b, a)
				o.Shutdown()
				gone(t, tag)
			}},
		{"its parent ends", func(tag string) string { return ignoresAll(tag) + " & wait" },
			func(t *testing.T, o *Owner, tag, gate string, parent procfs.Process, a, b *job) {
				open(t, gate)
				p := grown(t, tag, 1)[0]
				finish(t, b)
				parent.Signal(syscall.SIGKILL)
				orphaned(t, p)
				unattributed(t, p, a)
				unattributed(t, p, b)
				if !o.guard.knows(p) {
					t.Error("the guard does not know it")
				}
			}},
		{"unseen", func(tag string) string { return "env -i setsid -f " + ignoresAll(tag) },
			func(t *testing.T, o *Owner, tag, gate string, _ procfs.Process, a, b *job) {
				finish(t, b)
				open(t, gate)
				p := grown(t, tag, 1)[0]
				orphaned(t, p)
				unattributed(t, p, a)
				unattributed(t, p, b)
			}},
		{"unseen below a living process", func(tag string) string { return "env -i setsid -f " + ignoresAll(tag) + "; exec sleep 1000" },
			func(t *testing.T, o *Owner, tag, gate string, _ procfs.Process, a, b *job) {
				finish(t, b)
				open(t, gate)
				p := grown(t, tag, 1)[0]
				orphaned(t, p)
				unattributed(t, p, a)
			}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := newGuardedOwner(t)
			o.remaining = 100 * time.Millisecond
			o.limit = patience // no process is left to the guard, however busy the machine is
			tag := tag()
			a := onTTY(t, o, "a", `read x`)
			b, gate := above(t, o, "b", tt.rest(tag))
			tt.then(t, o, tag, gate, o.Unattributed()[0], a, b)
			o.Shutdown()
			gone(t, tag)
		})
	}
}

// A descendant of an orphan that no job started is not attributed to the only job.
func TestDescendantsOfNoJob(t *testing.T) {
	o := newOwner(t)
	tag := tag()
	script, gate := below(t.TempDir(), "setsid -f sleep "+tag+"; exec sleep 1000")
	must.Do(t, exec.Command("bash", "-c", script).Run())
	polltest.Until(t, "the foreign orphan", func() bool { return programs(o.Census().Orphans) == "bash" })
	foreign := o.Census().Orphans[0]
	defer foreign.Signal(syscall.SIGKILL)
	j := onTTY(t, o, "job", `read x`)
	open(t, gate)
	p := grown(t, tag, 1)[0]
	defer p.Signal(syscall.SIGKILL)
	orphaned(t, p)
	if slices.ContainsFunc(j.Tree(), same(p)) {
		t.Errorf("%v is in the tree %v", p, j.Tree())
	}
}
