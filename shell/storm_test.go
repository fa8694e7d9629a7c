package shell_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// kinds are jobs that an interrupt meets at any moment. Those that end by themselves can have ended
// when it comes. Each prints the numbers from 0 on.
const count = `i=0; while [ $i -lt 20 ]; do echo $i; i=$((i+1)); done; `

var kinds = map[string]string{
	"foreground":          count + `sleep 300`,
	"foreground, then":    count + `sleep 300; echo after`,
	"background, wait":    `sleep 300 & ` + count + `wait`,
	"two, wait for one":   `sleep 300 & sleep 300 & ` + count + `wait $!`,
	"pipeline":            count + `sleep 300 | cat`,
	"pipeline of loops":   `(` + count + `sleep 300) | while read -r a; do echo $a; done`,
	"subshell":            `(` + count + `(sleep 300; :); :)`,
	"substitution":        count + `x=$(sleep 300; echo)`,
	"trap, exits":         `trap 'exit 3' INT; ` + count + `while :; do sleep 0.01; done`,
	"trap, waits":         `trap 'exit 3' INT; sleep 300 & ` + count + `wait`,
	"trap, foreground":    `trap 'exit 3' INT; ` + count + `sleep 300`,
	"read":                count + `read -r x`,
	"computes":            count + `while :; do :; done`,
	"floods":              count + `exec yes 20`,
	"many children":       count + `while :; do /bin/true; done`,
	"ends at once":        count,
	"ends soon":           count + `sleep 0.005`,
	"ends soon, pipeline": count + `sleep 0.005 | cat`,
	"python": `python3 -I -S -c 'import time
for i in range(20): print(i, flush=True)
time.sleep(300)'`,
}

// swallowing are the kinds that can swallow an interrupt and all that follow while it is not
// certain that no program handles it: bash continues when its child has exited normally, and Python
// when the interrupt comes while it starts. They are terminated, and the receipt says so.
var swallowing = []string{"many children", "substitution", "python"}

// TestInterruptStorm interrupts jobs of every kind at random moments. None continues, none but the
// swallowing and a bash that loops needs more than the interrupt, no other job is hit, and no output
// is lost or doubled.
func TestInterruptStorm(t *testing.T) {
	if testing.Short() {
		t.Skip("a storm")
	}
	t.Parallel()
	rounds, seed := jobstest.Storm(t, 30)
	var names []string
	for name := range kinds {
		names = append(names, name)
	}
	b := newBench(t)
	bystanders := []*jobs.Job{
		b.start(`trap 'echo hit' INT HUP TERM; echo on; while :; do sleep 0.05; done`),
		b.startPiped(`trap 'echo hit' INT HUP TERM; echo on; while :; do sleep 0.05; done`),
	}
	for _, j := range bystanders {
		jobstest.Prints(t, j, "on")
	}
	var left atomic.Int64
	left.Store(int64(rounds))
	var ended, interrupted, swallowed, looped atomic.Int64
	var wg sync.WaitGroup
	for worker := range 4 {
		r := rand.New(rand.NewPCG(seed, uint64(worker)))
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				name := names[r.IntN(len(names))]
				onTTY := r.IntN(2) == 0
				j := jobstest.Start(t, b.r, jobs.Spec{Kind: jobs.Shell, Title: name}, b.command(kinds[name], onTTY))
				pause := time.Duration(r.ExpFloat64() * float64(10*time.Millisecond))
				select {
				case <-j.Done():
				case <-time.After(pause):
				}
				step := 30 * time.Second
				if slices.Contains(swallowing, name) {
					step = time.Second
				}
				j.Stop(jobs.Stop{By: jobs.Agent, From: jobs.Interrupt, Step: step})
				loops := endOfLoop(j)
				record := jobstest.End(t, j)
				what := fmt.Sprintf("%s, tty %v, after %v: %s, rungs %v", name, onTTY, pause, record.Receipt.Text(), record.Receipt.Rungs)
				switch {
				case len(record.Receipt.Rungs) == 2 && slices.Contains(swallowing, name):
					swallowed.Add(1)
				case loops && len(record.Receipt.Rungs) == 2 && len(record.Receipt.Survivors) == 0:
					looped.Add(1)
				case len(record.Receipt.Rungs) > 1 || len(record.Receipt.Survivors) > 0:
					t.Errorf("%s: survivors %v", what, record.Receipt.Survivors)
				case record.Status == jobs.Completed && !strings.HasPrefix(name, "ends"):
					t.Errorf("%s", what)
				case record.Status == jobs.Completed:
					ended.Add(1)
				default:
					interrupted.Add(1)
				}
				if err := whole(jobstest.Output(j), record.Status == jobs.Completed); err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d ended first, %d were interrupted, %d swallowed it and were terminated, %d looped and were terminated",
		ended.Load(), interrupted.Load(), swallowed.Load(), looped.Load())
	for _, j := range bystanders {
		if out := jobstest.Output(j); strings.Contains(out, "hit") || j.Record().Status != jobs.Running {
			t.Errorf("a bystander was hit: %s, %q", j.Record().Status, out)
		}
		j.Stop(jobs.Stop{By: jobs.Agent, From: jobs.Kill})
		jobstest.End(t, j)
	}
}

// endOfLoop waits for the end of a job that was interrupted. If its bash loops in its handler of the
// interrupt, see interrupt, endOfLoop has it terminated and returns true: no further interrupt can
// help. A program that is in a handler at most of a hundred looks does not leave it.
func endOfLoop(j *jobs.Job) bool {
	for {
		within := 0
		for range 100 {
			select {
			case <-j.Done():
				return false
			case <-time.After(10 * time.Millisecond):
			}
			if d, err := procfs.DispositionOf(j.Record().PID, syscall.SIGINT); err == nil && d.Caught && d.Blocked {
				within++
			}
		}
		if within > 50 {
			j.Stop(jobs.Stop{By: jobs.Agent, From: jobs.Terminate, Step: 30 * time.Second})
			return true
		}
	}
}

// whole returns an error if out does not begin with the numbers from 0 on, as far as its lines were
// written, or, if all is set, not with all of them.
func whole(out string, all bool) error {
	n := 0
	for line := range strings.Lines(out) {
		number, complete := strings.CutSuffix(strings.TrimSuffix(line, "\n"), "\r")
		complete = complete || strings.HasSuffix(line, "\n")
		if n == 20 || !complete || strings.HasPrefix(number, "Traceback") || strings.Contains(number, "write error") {
			break
		}
		if number != fmt.Sprint(n) {
			return fmt.Errorf("line %d is %q in %.200q", n, line, out)
		}
		n++
	}
	if all && n < 20 {
		return fmt.Errorf("only %d lines in %.200q", n, out)
	}
	return nil
}

// An interrupt that a program handles comes once: many programs take a second one as a request to
// drop everything. Each of these takes longer to end than an interrupt is repeated. A child has
// executed its program by the time it prints: a signal that finds it before that is lost. The shell
// waits by then: one that is about to wait for a child has not caught the signal yet.
func TestHandledInterruptsComeOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("each of its 14 jobs waits for a second, to be hit again")
	}
	t.Parallel()
	b := newBench(t)
	var wg sync.WaitGroup // and not t.Parallel, which lets only a few sleep at once
	for name, line := range map[string]string{
		"trap, then a child":  `trap 'echo int; sleep 1; echo over; exit 0' INT; sh -c 'echo on; exec sleep 300'`,
		"trap, then a wait":   `trap 'echo int' INT; sh -c 'echo on; exec sleep 300' & wait; kill -PIPE $!; sleep 1 & wait $!; echo over`,
		"trap in a loop":      `trap 'echo int; n=1' INT; echo on; i=0; while [ $i -lt 100 ]; do sleep 0.01; [ "$n" ] && i=$((i+1)); done; echo over`,
		"trap, given up":      `trap 'trap - INT; echo int; sleep 1; echo over; exit 0' INT; sh -c 'echo on; exec sleep 300'`,
		"a child with a trap": `bash -c 'trap "echo int; sleep 1; echo over; exit 0" INT; echo on; while :; do sleep 0.01; done'; :`,
		"a program": `exec python3 -I -S -c '
import os, signal, time
got = []
signal.signal(signal.SIGINT, lambda *a: got.append(os.write(1, b"int\n")))
os.write(1, b"on\n")
while not got: time.sleep(0.01)
time.sleep(1); print("over")'`,
		"a program, by its default": `python3 -I -S -c '
import os, signal, time
got = []
def once(*a): signal.signal(signal.SIGINT, signal.SIG_DFL); got.append(os.write(1, b"int\n"))
signal.signal(signal.SIGINT, once)
os.write(1, b"on\n")
while not got: time.sleep(0.01)
time.sleep(1); print("over")'; :`,
	} {
		for _, onTTY := range []bool{true, false} {
			wg.Go(func() {
				j := jobstest.Start(t, b.r, jobs.Spec{Kind: jobs.Shell}, b.command(line, onTTY))
				jobstest.Prints(t, j, "on")
				rests(t, j)
				j.Stop(jobs.Stop{By: jobs.Agent, From: jobs.Interrupt, Step: 30 * time.Second})
				record := jobstest.End(t, j)
				out := strings.ReplaceAll(jobstest.Output(j), "\r", "")
				if record.Status != jobs.Completed || out != "on\nint\nover\n" {
					t.Errorf("%s, tty %v: %s, output %q", name, onTTY, record.Receipt.Text(), out)
				}
			})
		}
	}
	wg.Wait()
}
