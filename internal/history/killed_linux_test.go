package history

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/output"
	"asyncrepl/internal/test/must"
	"asyncrepl/jobs"
)

// The arguments that make the test binary play other programs.
const (
	partWriter = "part-writer" // an engine that runs jobs until it is killed
	partFull   = "part-full"   // a test on a disk of its own
)

func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == partWriter {
		writeRecords(Config{State: os.Args[2], Workspace: os.Args[3]})
	}
	if len(os.Args) > 2 && os.Args[1] == partFull {
		if err := fillDisk(Config{State: os.Args[2], Workspace: "/"}); err != nil {
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

// A run whose engine was killed is accounted for once: with the processes that were left, and with
// the variables that receipts name.
func TestKilledRunIsSettledOnce(t *testing.T) {
	c := newConfig(t)
	c.Mark = func() string { return "MARK=1" }
	first := newEngine(c)
	python := func(names jobs.NameChange, state jobs.State) {
		j := must.Get(first.Start(jobs.Spec{Kind: jobs.Python, Session: "s"}, runFunc(func(_ context.Context, p *jobs.Port) jobs.Outcome {
			p.Begin()
			return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Returned, State: state, Names: names}}
		})))(t)
		<-j.Done()
	}
	python(jobs.NameChange{New: []string{"old"}, NewCount: 1}, jobs.Lost)
	python(jobs.NameChange{New: []string{"x", "y"}, NewCount: 5}, jobs.Kept)
	python(jobs.NameChange{New: []string{"z"}, NewCount: 1, Gone: []string{"x"}, GoneCount: 1}, jobs.Kept)
	left := first.do(t, "left", prints("hi"))
	running := must.Get(first.Start(jobs.Spec{Kind: jobs.Shell, Title: "runs"}, waits("")))(t)
	must.Do(t, os.Mkdir(must.Get(first.Dir())(t)+"/pip-X", 0o700))

	second := newEngine(c)
	if got := second.Settle(); got != nil {
		t.Errorf("a living engine was settled: %+v", got)
	}
	first.kill(t)
	dir := first.run.dir
	var asked []string
	kill := func(mark string) ([]EndedProcess, error) {
		asked = append(asked, mark)
		return []EndedProcess{{left.ID(), jobs.Process{PID: 812, Program: "npm"}}, {running.ID(), jobs.Process{PID: 813, Program: "sleep"}}}, nil
	}
	elsewhere := c
	elsewhere.Kill, elsewhere.Workspace = kill, t.TempDir()
	other := newEngine(elsewhere)
	must.Do(t, other.sweep()) // it ends what is left, and leaves the rest to the next engine of the workspace
	other.end()
	if exists(dir+"/pip-X") || !slices.Equal(asked, []string{"MARK=1"}) {
		t.Errorf("the programs of its jobs are left; killed %q", asked)
	}
	got := second.Settle()
	if len(got) != 1 || len(got[0].Jobs) != 1 || got[0].Jobs[0].ID != running.ID() {
		t.Fatalf("got %+v", got)
	}
	if v := got[0].Variables; len(v) != 1 || v[0].Session != "s" || !slices.Equal(v[0].Names, []string{"y", "z"}) || v[0].More != 3 {
		t.Errorf("variables %+v", v)
	}
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
	if again := append(second.Settle(), third.Settle()...); again != nil {
		t.Errorf("settled again: %+v", again)
	}
	running.Stop(jobs.Stop{From: jobs.Kill})
	<-running.Done()
	second.end()
	third.end()
}
