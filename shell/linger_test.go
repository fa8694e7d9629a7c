package shell_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/test/needtest"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
	"asyncrepl/shell"
)

// resets is a server that resets SIGHUP to its default, as node does. ready waits until it has.
const (
	resets = ` env --default-signal=HUP sh -c '>ready; exec sleep 300' >/dev/null 2>&1 `
	ready  = `; while ! test -e ready; do sleep .01; done`
)

// Programs that were started in the background survive the shell if the line detaches them, and no
// other programs do.
func TestDetachedSurvivesTheShell(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ways := map[string]func(path, line, dir string) jobs.Runner{
		"alone": func(path, line, dir string) jobs.Runner {
			return &shell.Command{Owner: b.owner, Argv: shell.Script(path, line), Dir: dir, Env: os.Environ(), TTY: true}
		},
		"session": func(path, line, dir string) jobs.Runner {
			l := shell.Line{Owner: b.owner, Shell: path, Text: line, Env: os.Environ(), TTY: true}
			return shell.NewSession("build", dir).Runner(l)
		},
	}
	for line, survives := range map[string]bool{
		`nohup sleep 300 >/dev/null 2>&1 & echo pid $!.`:                    true,
		`setsid sleep 300 & echo pid $!.`:                                   true,
		`(nohup sleep 300 >/dev/null 2>&1 &)`:                               true,
		"nohup sleep 300 >/dev/null 2>&1 & cat <<E\na & b\nE\n":             true,
		`nohup` + resets + `& echo pid $!.` + ready:                         true,
		`setsid` + resets + `& echo pid $!.` + ready:                        true,
		`(nohup` + resets + `&)` + ready:                                    true,
		resets + `& disown; echo pid $!.` + ready:                           true,
		`cd . && nohup` + resets + `& echo pid $!.` + ready + `; exit 3`:    true,
		`set -eu; nohup` + resets + `& echo pid $!.` + ready + `; (exit 3)`: true,
		`nohup true &&` + resets + `& echo pid $!.` + ready:                 true,
		resets + `& echo pid $!.` + ready:                                   false,
		resets + `& echo nohup` + ready:                                     false,
		resets + `& nohup true` + ready:                                     false,
	} {
		for _, name := range []string{"bash", "dash"} {
			for way, runner := range ways {
				t.Run(name+" "+way+" "+line, func(t *testing.T) {
					t.Parallel()
					path := needtest.Program(t, name)
					j := jobstest.Start(t, b.r, jobs.Spec{Kind: jobs.Shell, Title: line}, runner(path, line, t.TempDir()))
					record := jobstest.End(t, j)
					if want := strings.Contains(line, "exit 3"); want != (record.Receipt.Code == 3) {
						t.Errorf("exit %d", record.Receipt.Code)
					}
					left, hungUp := record.Receipt.Left, record.Receipt.HungUp
					of, other := left, hungUp
					if !survives {
						of, other = hungUp, left
					}
					var numbers []int
					for _, p := range of {
						numbers = append(numbers, p.PID)
					}
					if len(of) == 0 || len(of) > 1 && !strings.Contains(line, "&&") || len(other) > 0 {
						t.Fatalf("%s; left running: %v; hung up: %v", record.Receipt.Text(), left, hungUp)
					}
					if survives { // a busy machine can take longer to start it than the shell stays
						polltest.Until(t, "the program to be executed", func() bool {
							return slices.ContainsFunc(numbers, func(pid int) bool {
								p, err := procfs.Inspect(pid)
								return err == nil && p.Program == "sleep"
							})
						})
					}
					for _, pid := range pids(jobstest.Output(j)) {
						if !slices.Contains(numbers, pid) {
							t.Errorf("%d is not among %v", pid, of)
						}
					}
					if remains, _ := j.Cleanup(t.Context(), jobs.Stop{By: jobs.Agent}); survives && len(remains.Ended) != len(left) {
						t.Errorf("a cancel ended %v of %v", remains.Ended, left)
					}
				})
			}
		}
	}
}

// The receipt names the program, not the shell that forked it.
func TestDetachedIsNamed(t *testing.T) {
	b := newBench(t)
	var left []jobs.Process
	for range 10 { // the shell stays for 0.1 s, in which a busy machine can do nothing
		left = jobstest.End(t, b.start(`nohup sleep 300 >/dev/null 2>&1 &`)).Receipt.Left
		if len(left) == 1 && left[0].Program == "sleep" {
			return
		}
	}
	t.Errorf("left running: %v", left)
}

// The shell of such a line ends soon even if it is not in the foreground any more.
func TestLingersInTheBackground(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	j := b.start(`nohup sleep 300 >/dev/null 2>&1 & sh -c 'set -m; (kill -9 $$); :'; exit 3`)
	if record := jobstest.End(t, j); record.Receipt.Code != 3 || len(record.Receipt.Left) != 1 {
		t.Errorf("%s; left running: %v; hung up: %v", record.Receipt.Text(), record.Receipt.Left, record.Receipt.HungUp)
	}
}

// Only a line that starts something to survive the shell keeps the shell.
func TestLingers(t *testing.T) {
	for line, want := range map[string]bool{
		"nohup a &":              true,
		"setsid a&":              true,
		"x; nohup a >l 2>&1 & b": true,
		"nohup a > l 2>&1":       false,
		"nohup a && b":           false,
		"nohup a &>l":            false,
		"nohup a |& b <&3":       false,
		"a & disown":             true,
		"nohup a; b &":           true,
		"a & nohup b":            false,
		"disown; a &":            false,
		"tail -f nohup.out &":    false,
		"a &":                    false,
		"echo hi":                false,
	} {
		if got := shell.Lingers(line); got != want {
			t.Errorf("%s: got %t, want %t", line, got, want)
		}
	}
}
