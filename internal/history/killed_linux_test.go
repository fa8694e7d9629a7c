package history

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/output"
	"asyncrepl/internal/process"
	"asyncrepl/internal/test/must"
	"asyncrepl/jobs"
)

// The arguments that make the test binary play other programs.
const (
	partWriter  = "part-writer"  // an engine that runs jobs until it is killed
	partFull    = "part-full"    // a test on a disk of its own
	partStarter = "part-starter" // an engine that starts processes until it is killed
)

func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == partWriter {
		writeRecords(configIn(os.Args[2], os.Args[3]))
	}
	if len(os.Args) > 3 && os.Args[1] == partStarter {
		startProcesses(configIn(os.Args[2], os.Args[3]))
	}
	if len(os.Args) > 2 && os.Args[1] == partFull {
		if err := fillDisk(configIn(os.Args[2], "/")); err != nil {
			fmt.Println(err)
		}
		return
	}
	os.Exit(m.Run())
}

// writeRecords runs jobs and says what a client would have been shown of them: that a job exists,
// that it runs and has so much output, and that it has ended.
func writeRecords(c Config) {
	e := newEngine(c)
	for i := 0; ; i++ {
		long := i%3 == 0
		j, err := e.Start(jobs.Spec{Kind: jobs.Shell, Title: fmt.Sprint(i)}, runFunc(func(ctx context.Context, p *jobs.Port) jobs.Outcome {
			p.Begin()
			for range rand.IntN(20) {
				p.Write(output.Stdout, []byte(strings.Repeat(string(rune('a'+i%26)), 1+rand.IntN(900))))
				if long {
					n := len(text(must1(e.Get(p.ID()))))
					fmt.Printf("o %s %d\n", p.ID(), n)
				}
			}
			return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Exited, Code: i % 2}}
		}))
		if err != nil {
			panic(err)
		}
		fmt.Println("s", j.ID(), 0)
		<-j.Done()
		fmt.Println("e", j.ID(), j.Record().Output.End)
	}
}

// must1 returns its first argument. The program that it is called in is no test.
func must1[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// An engine is killed at any moment: nothing of what a client was shown is lost or false.
func TestKilledAtAnyMoment(t *testing.T) {
	rounds := 100
	if testing.Short() {
		rounds = 10
	}
	c := newConfig(t)
	seen := 0
	for round := range rounds {
		c.State = fmt.Sprintf("%s-%d", c.State, round%10)
		writer := exec.Command(must.Get(os.Executable())(t), partWriter, c.State, c.Workspace)
		out := must.Get(writer.StdoutPipe())(t)
		must.Do(t, writer.Start())
		lines := bufio.NewReader(out)
		var shown []string
		for n := 1 + rand.IntN(40); n > 0; n-- { // it is killed after so many lines and a little more
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			shown = append(shown, line)
		}
		for until := time.Now().Add(time.Duration(rand.IntN(500)) * time.Microsecond); time.Now().Before(until); {
		}
		writer.Process.Kill()
		rest := must.Get(io.ReadAll(lines))(t)
		writer.Wait() // an error: it was killed
		for line := range strings.Lines(string(rest)) {
			if strings.HasSuffix(line, "\n") {
				shown = append(shown, line)
			}
		}
		e := newEngine(c)
		for _, line := range shown {
			f := strings.Fields(line)
			j, err := e.Get(f[1])
			if err != nil {
				t.Fatalf("round %d: %q was shown, and now: %v", round, line, err)
			}
			seen++
			record, n := j.Record(), must.Get(strconv.Atoi(f[2]))(t)
			if !record.Status.Final() || f[0] == "e" && record.Receipt.End != jobs.Exited {
				t.Fatalf("round %d: %q was shown, and now it is %s", round, line, record.Receipt.Text())
			}
			if got := len(text(j)); got < n {
				t.Fatalf("round %d: %q was shown, and now it has %d bytes of %+v", round, line, got, record.Output)
			}
		}
		e.end()
	}
	if seen < rounds {
		t.Errorf("only %d facts were seen", seen)
	}
}

// A killed engine has ended as soon as its process has: a child that it was starting does not count
// as the engine until its exec.
func TestKilledWhileItStartsProcesses(t *testing.T) {
	c := newConfig(t)
	for round := range 60 {
		starter := exec.Command(must.Get(os.Executable())(t), partStarter, c.State, c.Workspace)
		out := must.Get(starter.StdoutPipe())(t)
		must.Do(t, starter.Start())
		id := strings.TrimSpace(must.Get(bufio.NewReader(out).ReadString('\n'))(t))
		for until := time.Now().Add(time.Duration(rand.IntN(3000)) * time.Microsecond); time.Now().Before(until); {
		}
		starter.Process.Kill()
		starter.Wait() // an error: it was killed
		e := newEngine(c)
		if _, err := e.Get(id); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		e.end()
	}
}

// startProcesses runs a job that never ends, and starts processes all the time.
func startProcesses(c Config) {
	e := newEngine(c)
	j := must1(e.Start(jobs.Spec{Kind: jobs.Shell, Title: "runs"}, waits("")))
	fmt.Println(j.ID())
	for range 4 {
		go func() {
			for {
				exec.Command("/bin/true").Run()
			}
		}()
	}
	select {}
}

// A run whose engine was killed is accounted for once: with the processes that were left, and with
// the variables that receipts name.
func TestKilledRunIsSettledOnce(t *testing.T) {
	c := newConfig(t)
	c.Mark = func() string { return "MARK=1" }
	first := newEngine(c)
	left := first.do(t, "left", prints("hi"))
	running := first.runs(t, jobs.Spec{Kind: jobs.Shell, Title: "runs"}, "")
	must.Do(t, os.Mkdir(must.Get(first.Dir())(t)+"/pip-X", 0o700))
	must.Do(t, os.WriteFile(must.Get(first.Dir())(t)+"/journal.jsonl.new", []byte("{"), 0o600))

	second := newEngine(c)
	if got, _ := second.Settle(); got != nil {
		t.Errorf("a living engine was settled: %+v", got)
	}
	first.kill(t)
	dir := first.run.dir
	var asked []string
	elsewhere := c
	elsewhere.Workspace = t.TempDir()
	elsewhere.Kill = func(mark string) (ended []process.Marked, err error) {
		asked = append(asked, mark)
		for pid, job := range map[int]*jobs.Job{812: left, 813: running} {
			ended = append(ended, process.Marked{Process: procfs.Process{PID: pid, Program: "npm"}, Job: job.ID()})
		}
		return ended, nil
	}
	other := newEngine(elsewhere)
	must.Do(t, other.sweep()) // it ends what is left, and leaves the rest to the next engine of the workspace
	other.end()
	if exists(dir+"/pip-X") || exists(dir+"/journal.jsonl.new") || !slices.Equal(asked, []string{"MARK=1"}) {
		t.Errorf("the programs of its jobs are left; killed %q", asked)
	}
	for range 2 { // an engine that is killed before a reply has said it leaves that to the next one
		second = newEngine(c)
		got, complete := second.Settle()
		if len(got) != 1 || len(got[0].Jobs) != 1 || got[0].Jobs[0].ID != running.ID() || !complete {
			t.Fatalf("got %+v, %t", got, complete)
		}
	}
	second.Said()
	for _, id := range []string{left.ID(), running.ID()} {
		if notes := must.Get(second.Get(id))(t).Record().Receipt.Notes; len(notes) != 1 || !strings.Contains(notes[0], "outlived its server") {
			t.Errorf("%s has the notes %q", id, notes)
		}
	}
	if j := must.Get(second.Get(running.ID()))(t); j.Record().Receipt.Text() != "failed (server was killed)" {
		t.Errorf("it is %s", j.Record().Receipt.Text())
	}
	if j := must.Get(second.Get(left.ID()))(t); text(j) != "hi" || j.Record().Status != jobs.Completed {
		t.Errorf("its output is %q, %s", text(j), j.Record().Status)
	}
	third := newEngine(c)
	for _, e := range []engine{second, third} {
		if again, _ := e.Settle(); again != nil {
			t.Errorf("settled again: %+v", again)
		}
	}
	second.end()
	third.end()
}

// A killed engine of which nothing is lost is settled without a word.
func TestKilledWithNothingToLose(t *testing.T) {
	c := newConfig(t)
	first := newEngine(c)
	first.do(t, "ended", prints("x"))
	first.kill(t)
	second := newEngine(c)
	defer second.end()
	if got, complete := second.Settle(); got != nil || !complete || !isSettledAt(t, first.run.dir) {
		t.Errorf("got %+v, %t, settled: %t", got, complete, isSettledAt(t, first.run.dir))
	}
}

// An engine settles a run later if another process works on it at first.
func TestRunIsSettledWhenNoOtherProcessDoes(t *testing.T) {
	c := newConfig(t)
	first := newEngine(c)
	first.runs(t, jobs.Spec{Kind: jobs.Shell, Title: "runs"}, "")
	first.kill(t)
	second := newEngine(c)
	defer second.end()
	must.Do(t, second.locked(second.dir(), func(dir) error {
		if got, complete := second.Settle(); got != nil || complete {
			t.Errorf("got %+v, %t", got, complete)
		}
		return nil
	}))
	if got, complete := second.Settle(); len(got) != 1 || !complete {
		t.Errorf("later got %+v, %t", got, complete)
	}
}

// Of a killed engine only variables count that it had then, by the receipts of its jobs.
func TestVariablesOfKilledRun(t *testing.T) {
	c := newConfig(t)
	first := newEngine(c)
	python := func(session string, names jobs.NameChange, state jobs.State) {
		j := must.Get(first.Start(jobs.Spec{Kind: jobs.Python, Session: session}, runFunc(func(_ context.Context, p *jobs.Port) jobs.Outcome {
			p.Begin()
			return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Returned, State: state, Names: names}}
		})))(t)
		<-j.Done()
	}
	python("s", jobs.NameChange{New: []string{"old"}, NewCount: 1}, jobs.Lost)
	python("s", jobs.NameChange{New: []string{"x", "y"}, NewCount: 5}, jobs.Kept)
	python("deleted", jobs.NameChange{New: []string{"x"}, NewCount: 1}, jobs.Kept)
	python("restarted", jobs.NameChange{New: []string{"before"}, NewCount: 2}, jobs.Kept)
	first.Reset("deleted")
	first.Reset("restarted")
	python("s", jobs.NameChange{New: []string{"z"}, NewCount: 1, Gone: []string{"x"}, GoneCount: 1}, jobs.Kept)
	python("restarted", jobs.NameChange{New: []string{"after"}, NewCount: 1}, jobs.Kept)
	first.kill(t)
	second := newEngine(c)
	defer second.end()
	got, _ := second.Settle()
	want := []Variables{{"restarted", []string{"after"}, 0}, {"s", []string{"y", "z"}, 3}}
	if len(got) != 1 || !reflect.DeepEqual(got[0].Variables, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
