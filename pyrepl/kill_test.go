package pyrepl_test

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// A worker that is killed while it starts is no worker: the next job has one.
func TestKilledWhileItStarts(t *testing.T) {
	inFull(t)
	t.Parallel()
	dir := files(t, map[string]string{
		"flag":             "",
		"sitecustomize.py": "import os\nflag = __file__.replace('sitecustomize.py', 'flag')\nif os.path.exists(flag):\n    os.remove(flag)\n    os.kill(os.getpid(), 9)",
	})
	b := newBenchIn(t, t.TempDir(), "PYTHONPATH="+dir)
	first, second := b.start("1"), b.start("2")
	if text := jobstest.End(t, first).Receipt.Text(); !strings.Contains(text, "was killed by SIGKILL before it was ready") {
		t.Errorf("status %q", text)
	}
	if record := jobstest.End(t, second); record.Result != "2" {
		t.Errorf("the next job: %s", record.Receipt.Text())
	}
}

// Workers killed at random moments: what a job finds in its namespace is what the receipts so far
// say, and no job runs that was to follow a lost one.
func TestWorkerKillStorm(t *testing.T) {
	if testing.Short() {
		t.Skip("a storm")
	}
	t.Parallel()
	rounds, seed := jobstest.Storm(t, 15)
	s := &killStorm{t: t, b: newBench(t), rnd: rand.New(rand.NewPCG(seed, 0))}
	for round := range rounds {
		s.round(round)
	}
	t.Logf("%d jobs completed, %d lost their worker, %d were not run", s.completed, s.lost, s.notRun)
}

type killStorm struct {
	t     *testing.T
	b     *bench
	rnd   *rand.Rand
	count int // how often jobs have added to the namespace, as far as the receipts say

	completed, lost, notRun int
}

// round kills the worker while three jobs are due.
func (s *killStorm) round(round int) {
	record, _ := s.b.run("1")
	s.noteLoss(record)
	worker, err := os.FindProcess(record.PID) // by pidfd: never another
	if err != nil {
		s.t.Fatal(err)
	}
	defer worker.Release()
	begins := []string{"", "import time; time.sleep(0.002)", "input()", "for i in range(500): print(i)", "import asyncio; await asyncio.sleep(0.001)", "import subprocess; subprocess.run(['true'])", "1 / 0"}
	var js []*jobs.Job
	for range 3 {
		js = append(js, s.b.start(begins[s.rnd.IntN(len(begins))]+"\ncount = globals().get('count', 0) + 1\ncount"))
	}
	killed := make(chan struct{})
	time.AfterFunc(time.Duration(s.rnd.IntN(12000))*time.Microsecond, func() { worker.Kill(); close(killed) })
	last := "" // the job that lost the variables
	for i, j := range js {
		if !s.end(j, &last) {
			s.t.Errorf("round %d, job %d: %+v, result %q, want %d; output %.300q", round, i, j.Record().Receipt, j.Record().Result, s.count, jobstest.Output(j))
		}
	}
	<-killed
	record, _ = s.b.run("globals().get('count', 0)")
	if s.noteLoss(record); record.Result != strconv.Itoa(s.count) {
		s.t.Errorf("round %d: count is %s, want %d; %+v", round, record.Result, s.count, record.Receipt)
	}
	if s.t.Failed() {
		s.t.FailNow()
	}
}

// end answers a job until it ends, and reports whether it ended as it had to: last is the job
// before it that lost the variables.
func (s *killStorm) end(j *jobs.Job, last *string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), jobstest.Patience)
	defer cancel()
	for j.Await(ctx) == nil && j.Record().Status == jobs.WaitingInput {
		j.Send(ctx, jobs.Input{Line: true}) // an error: it is being killed
	}
	record := jobstest.End(s.t, j)
	if *last != "" {
		s.notRun++
		return record.Receipt.Text() == "failed (not run: variables were lost in job "+*last+")"
	}
	s.noteLoss(record)
	switch text := record.Receipt.Text(); {
	case record.Receipt.State == jobs.Lost:
		*last, s.count = j.ID(), 0
		s.lost++
		return text == "failed (killed by SIGKILL; variables lost)"
	case text == "completed":
		s.completed++
		s.count++
		return record.Result == strconv.Itoa(s.count)
	default:
		return text == "failed (ZeroDivisionError: division by zero)"
	}
}

// noteLoss resets the count if the receipt says that variables were lost before the job.
func (s *killStorm) noteLoss(record jobs.Record) {
	if notes := strings.Join(record.Receipt.Notes, ";"); strings.Contains(notes, "variables") {
		s.count = 0
	}
}
