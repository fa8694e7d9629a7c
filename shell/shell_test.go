package shell_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/output"
	"asyncrepl/internal/process"
	"asyncrepl/internal/process/processtest"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
	"asyncrepl/shell"
)

func TestMain(m *testing.M) { os.Exit(processtest.Main(m)) }

// A bench runs real commands as real jobs.
type bench struct {
	t     testing.TB
	owner *process.Owner
	r     *jobs.Registry
	dir   string
	bash  string
}

func newBench(t testing.TB) *bench {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	owner := processtest.Owner(t) // ended last
	return &bench{t: t, owner: owner, r: jobstest.Registry(t), dir: t.TempDir(), bash: bash}
}

func (b *bench) command(line string, onTTY bool) *shell.Command {
	env := append(os.Environ(), "TERM=xterm-256color")
	return &shell.Command{Owner: b.owner, Argv: shell.Script(b.bash, line), Dir: b.dir, Env: env, TTY: onTTY}
}

func (b *bench) start(line string) *jobs.Job {
	b.t.Helper()
	return jobstest.Start(b.t, b.r, jobs.Spec{Kind: jobs.Shell, Title: line}, b.command(line, true))
}

func (b *bench) startPiped(line string) *jobs.Job {
	b.t.Helper()
	return jobstest.Start(b.t, b.r, jobs.Spec{Kind: jobs.Shell, Title: line}, b.command(line, false))
}

// write writes a file into the directory of the commands.
func (b *bench) write(name, text string) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func TestEnds(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ line, status, output string }{
		"exit 0":       {"echo hi", "completed", "hi\r\n"},
		"no newline":   {"printf hi", "completed", "hi"},
		"exit 3":       {"echo no; exit 3", "failed (exit 3)", "no\r\n"},
		"signal":       {"echo last words; kill -SEGV $$", "failed (killed by SIGSEGV)", "last words\r\n"},
		"kill":         {"kill -KILL $$", "failed (killed by SIGKILL)", ""},
		"not found":    {"no-such-program-here", "failed (exit 127)", "no-such-program-here"},
		"unusual":      {`printf '\377\000\033[31mred'`, "completed", "\xff\x00\x1b[31mred"},
		"long line":    {"head -c 300000 /dev/zero | tr '\\0' x", "completed", strings.Repeat("x", 300_000)},
		"size":         {"stty size", "completed", "40 120\r\n"},
		"own terminal": {"test -t 0 && test -t 1 && test -t 2 && echo < /dev/tty yes", "completed", "yes\r\n"},
	}
	b := newBench(t)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			j := b.start(test.line)
			record := jobstest.End(t, j)
			if record.Receipt.Text() != test.status {
				t.Errorf("status %q, want %q", record.Receipt.Text(), test.status)
			}
			if out := jobstest.Output(j); !strings.Contains(out, test.output) {
				t.Errorf("output %.300q, want %.300q", out, test.output)
			}
		})
	}
}

func TestReceiptSaysWhyACommandDidNotStart(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := b.command("echo", true)
	c.Argv = []string{b.dir + "/none"}
	record := jobstest.End(t, jobstest.Start(t, b.r, jobs.Spec{Kind: jobs.Shell}, c))
	if text := record.Receipt.Text(); !strings.HasPrefix(text, "failed (could not start: ") || !strings.Contains(text, "no such file") {
		t.Errorf("status %q", text)
	}
	c = b.command("echo", false)
	c.Dir = b.dir + "/none"
	record = jobstest.End(t, jobstest.Start(t, b.r, jobs.Spec{Kind: jobs.Shell}, c))
	if r := record.Receipt; r.End != jobs.NotStarted || r.Cause != jobs.NoDirectory || !strings.Contains(r.Detail, c.Dir) {
		t.Errorf("without its directory: %+v", r)
	}
}

// A lateRunner runs a command once its job was asked to end and its owner starts nothing any more.
type lateRunner struct {
	command *shell.Command
	stop    jobs.Stop
}

func (l lateRunner) Run(ctx context.Context, p *jobs.Port) jobs.Outcome {
	p.Cancel(l.stop)
	l.command.Owner.Shutdown()
	return l.command.Run(context.WithoutCancel(ctx), p) // as if the stop came just after the first look at it
}

func TestEndOfTheServerMeetsAJobWithoutAProcess(t *testing.T) {
	t.Parallel()
	for _, tty := range []bool{false, true} {
		b := newBench(t)
		run := lateRunner{b.command("echo hi", tty), jobs.Stop{By: jobs.ClientGone}}
		record := jobstest.End(t, jobstest.Start(t, b.r, jobs.Spec{Kind: jobs.Shell}, run))
		if record.Status != jobs.Cancelled || record.Receipt.By != jobs.ClientGone || record.Receipt.End != jobs.NotRun {
			t.Errorf("on a terminal %t: %s, by %s", tty, record.Receipt.Text(), record.Receipt.By)
		}
	}
}

// No shell reads a person's start-up file, not even a bash that finds itself under sshd.
func TestNoStartUpFileIsRead(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	link := b.dir + "/my-shell"
	b.write(".bashrc", "echo start-up")
	if err := os.Symlink(b.bash, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{b.bash, link, "/bin/sh"} {
		for _, line := range []string{"echo hi", "echo hi # " + strings.Repeat("x", 200_000)} {
			c := b.command(line, true)
			c.Argv = shell.Script(path, line)
			c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.dir, "SSH_CLIENT=::1 1 22"}
			j := jobstest.Start(t, b.r, jobs.Spec{Kind: jobs.Shell}, c)
			jobstest.End(t, j)
			if got := jobstest.Output(j); got != "hi\r\n" {
				t.Errorf("%s, a line of %d bytes: %q", path, len(line), got)
			}
		}
	}
}

func TestPipesKeepStdoutAndStderrApart(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	j := b.startPiped("echo out; echo err >&2; test -t 0 || echo piped; cat; exit 4")
	jobstest.Prints(t, j, "piped")
	line := strings.Repeat("x", 200_000) + "\n"
	for i, in := range []jobs.Input{{Text: line}, {EOF: true}} {
		jobstest.Asks(t, j)
		if d := jobstest.Send(t, j, in); d != (jobs.Delivery{Waiting: true, Closed: i + 1}) {
			t.Errorf("what became of input: %+v", d)
		}
	}
	jobstest.EndsAs(t, j, "failed (exit 4)")
	if got, want := jobstest.Stream(j, output.Stdout), "out\npiped\n"+line; got != want {
		t.Errorf("stdout has %d bytes, want %d", len(got), len(want))
	}
	if got := jobstest.Stream(j, output.Stderr); got != "err\n" {
		t.Errorf("stderr %q", got)
	}
}

// Two pipes have no order. What was printed before an error is kept before it all the same.
func TestErrorsComeAfterWhatWasPrintedBefore(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for range 20 {
		j := b.startPiped("echo out; echo err >&2")
		jobstest.End(t, j)
		if got := jobstest.Output(j); got != "out\nerr\n" {
			t.Fatalf("output %q", got)
		}
	}
}

func TestCancelEndsTheTree(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ line, status string }{
		"plain":      {`sleep 300 & echo pid $!.; echo on; wait`, "cancelled (interrupted)"},
		"foreground": {`echo on; sleep 300`, "cancelled (interrupted)"},
		"nohup":      {`nohup sleep 300 >/dev/null 2>&1 & echo pid $!.; echo on; sleep 300`, "cancelled (interrupted)"},
		"setsid":     {`setsid sleep 300 & echo pid $!.; echo on; sleep 300`, "cancelled (interrupted)"},
		"double":     {`(setsid bash -c 'sleep 300 & echo pid $!.' &); echo on; sleep 300`, "cancelled (interrupted)"},
		"bare env":   {`env -i setsid sleep 300 & echo pid $!.; echo on; sleep 300`, "cancelled (interrupted)"},
		"trap int":   {`trap '' INT; echo on; sleep 300 & echo pid $!.; wait`, "cancelled (terminated)"},
		"trap all":   {`trap '' INT TERM HUP; echo on; sleep 300 & echo pid $!.; while :; do sleep 300; done`, "cancelled (killed)"},
		"stopped":    {`sleep 300 & kill -STOP $!; echo pid $!.; echo on; kill -STOP $$`, "cancelled (interrupted)"},
	}
	// What must not be reached on a busy machine, which can be slow to end a process, has more time.
	steps := map[string]time.Duration{"cancelled (interrupted)": jobstest.Patience, "cancelled (terminated)": time.Second, "cancelled (killed)": 300 * time.Millisecond}
	b := newBench(t)
	var wg sync.WaitGroup // and not t.Parallel, which lets no more sleep at once than there are processors
	for name, test := range tests {
		for _, onTTY := range []bool{true, false} {
			wg.Go(func() {
				j := jobstest.Start(t, b.r, jobs.Spec{Kind: jobs.Shell}, b.command(test.line, onTTY))
				jobstest.Prints(t, j, "on")
				if strings.Contains(test.line, "pid $!.") {
					jobstest.Prints(t, j, ".")
				}
				rests(t, j)
				j.Stop(jobs.Stop{By: jobs.Agent, From: jobs.Interrupt, Step: steps[test.status]})
				record := jobstest.EndsAs(t, j, test.status)
				if len(record.Receipt.Survivors)+len(record.Receipt.Left) > 0 {
					t.Errorf("%s, tty %v: survivors %v, left %v", name, onTTY, record.Receipt.Survivors, record.Receipt.Left)
				}
				for _, pid := range pids(jobstest.Output(j)) {
					processtest.Gone(t, pid)
				}
			})
		}
	}
	wg.Wait()
}

// rests waits until the leader of a job sleeps or is stopped: a shell that is interrupted just
// before it begins to wait, waits.
func rests(t *testing.T, j *jobs.Job) {
	t.Helper()
	polltest.Until(t, "the leader to sleep", func() bool {
		p, err := procfs.Inspect(j.Record().PID)
		if err != nil {
			t.Fatal(err)
		}
		return p.State != 'R'
	})
}

// pids returns the processes that a command named as "pid N.".
func pids(out string) (all []int) {
	for _, part := range strings.Split(out, "pid ")[1:] {
		number, _, _ := strings.Cut(part, ".")
		if pid, err := strconv.Atoi(number); err == nil {
			all = append(all, pid)
		}
	}
	return all
}

func TestReceiptNamesWhatIsLeftBehind(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	j := b.start(`sleep 300 & echo pid $!.
bash -c 'trap "" HUP; > ready; while ! test -e go; do sleep 0.01; done; echo late words; sleep 300' & echo pid $!.
while ! test -e ready; do sleep 0.01; done`)
	record := jobstest.EndsAs(t, j, "completed")
	onTime := jobstest.Output(j)
	started := pids(onTime)
	if len(started) != 2 {
		t.Fatalf("output %q", onTime)
	}
	names := func(ps []jobs.Process) (all []int) {
		for _, p := range ps {
			all = append(all, p.PID)
		}
		return all
	}
	if left := names(record.Receipt.Left); !slices.Contains(left, started[1]) {
		t.Errorf("left %v, not %d", left, started[1])
	}
	if hung := names(record.Receipt.HungUp); !slices.Contains(hung, started[0]) {
		t.Errorf("hung up %v, not %d; left %v", hung, started[0], record.Receipt.Left)
	}
	b.write("go", "")
	jobstest.PrintsLate(t, j, "late words")
	if final := j.Log().Stat().Final; final != int64(len(onTime)) {
		t.Errorf("final at %d, want %d, before the late output", final, len(onTime))
	}
	remains, any := j.Cleanup(t.Context(), jobs.Stop{By: jobs.Agent})
	if !any || len(remains.Survivors) > 0 || !slices.Contains(names(remains.Ended), started[1]) {
		t.Errorf("remains %+v, any %v", remains, any)
	}
	for _, pid := range started {
		processtest.Gone(t, pid)
	}
	if got := j.Record().Status; got != jobs.Completed {
		t.Errorf("the status became %s", got)
	}
}

// A cleanup is completed even if its caller stops waiting.
func TestCleanupOutlivesItsCaller(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	j := b.startPiped(`(trap '' TERM; echo deaf; while :; do sleep 300; done) & echo pid $!.`)
	jobstest.End(t, j)
	jobstest.PrintsLate(t, j, "deaf")
	gone, leave := context.WithCancel(t.Context())
	leave()
	if remains, any := j.Cleanup(gone, jobs.Stop{By: jobs.Agent}); !any || !remains.Pending {
		t.Errorf("remains %+v, any %v", remains, any)
	}
	for {
		changed := j.Changed()
		if len(j.Record().Receipt.Left) == 0 {
			break
		}
		<-changed
	}
	for _, pid := range pids(jobstest.Output(j)) {
		processtest.Gone(t, pid)
	}
}

// A child that floods the pipe for ever does not keep the job from ending.
func TestFloodingChildDoesNotHoldTheEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("floods with two programs for each job")
	}
	t.Parallel()
	for _, onTTY := range []bool{true, false} {
		b := newBench(t)
		c := b.command(`trap '' HUP; yes & yes & sleep 0.2; exit 5`, onTTY)
		j := jobstest.Start(t, b.r, jobs.Spec{Kind: jobs.Shell}, c)
		if record := jobstest.End(t, j); record.Receipt.Text() != "failed (exit 5)" || len(record.Receipt.Left) == 0 {
			t.Errorf("tty %v: %s, left %v", onTTY, record.Receipt.Text(), record.Receipt.Left)
		}
		j.Cleanup(t.Context(), jobs.Stop{By: jobs.Agent})
	}
}

func TestTwoHundredAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("a load: 200 shells")
	}
	t.Parallel()
	b := newBench(t)
	var wg sync.WaitGroup
	for i := range 200 {
		j := b.start(fmt.Sprintf("echo first %d; read -r x; echo last $x; exit $((%d %% 2))", i, i))
		wg.Go(func() {
			jobstest.Asks(t, j)
			jobstest.Send(t, j, jobs.Input{Text: fmt.Sprintf("word%d\n", i)})
			record := jobstest.End(t, j)
			if record.Receipt.Code != i%2 || record.Receipt.End != jobs.Exited {
				t.Errorf("job %d: %s", i, record.Receipt.Text())
			}
			if out, want := jobstest.Output(j), fmt.Sprintf("first %d\r\nword%d\r\nlast word%d\r\n", i, i, i); out != want {
				t.Errorf("job %d: output %q, want %q", i, out, want)
			}
		})
	}
	wg.Wait()
}

func TestCommandThatFinishesItsInterruptHasCompleted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	j := b.start(`trap 'echo cleaning up; exit 0' INT; echo on; while :; do sleep 0.01; done`)
	jobstest.Prints(t, j, "on")
	j.Stop(jobs.Stop{By: jobs.Agent, From: jobs.Interrupt})
	record := jobstest.EndsAs(t, j, "completed (exit 0 after an interrupt)")
	if record.Receipt.By != jobs.Agent || !strings.Contains(jobstest.Output(j), "cleaning up") {
		t.Errorf("ended by %s, output %q", record.Receipt.By, jobstest.Output(j))
	}
}

// A shutdown ends all processes. It does not search for the files of a job.
func TestClosingTheRegistryEndsAll(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	j := b.start("touch new; sleep 300 & echo pid $!.; sleep 0.11; echo ready; wait")
	jobstest.Prints(t, j, "ready")
	b.r.Close(jobs.Stop{By: jobs.Shutdown, From: jobs.Kill})
	record := j.Record()
	if found := record.Receipt.Files; record.Status != jobs.Cancelled || found.NewCount+found.ChangedCount != 0 {
		t.Errorf("status %s, files %+v", record.Receipt.Text(), found)
	}
	for _, pid := range pids(jobstest.Output(j)) {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d is still there", pid)
		}
	}
}
