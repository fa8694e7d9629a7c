package pyrepl_test

import (
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// execTime is one round trip of code through a session.
func execTime(b *testing.B, s *bench, code string) time.Duration {
	begin := time.Now()
	j := s.start(code)
	<-j.Done()
	d := time.Since(begin)
	if record := j.Record(); record.Status != jobs.Completed {
		b.Fatal(record.Receipt.Text())
	}
	return d
}

// BenchmarkExecute is a round trip against the least that a worker in another process costs: a line
// to a bare Python loop and a line back.
func BenchmarkExecute(b *testing.B) {
	s := newBench(b)
	jobstest.End(b, s.start("1"))
	ask := bareLoop(b)
	var ours, floor time.Duration
	for b.Loop() {
		ours += execTime(b, s, "x=1")
		floor += ask("x=1\n")
	}
	b.ReportMetric(float64(ours)/float64(floor), "x-floor")
	b.ReportMetric(float64(ours-floor)/1e3/float64(b.N), "us-over-floor")
}

// bareLoop starts a Python that executes a line and answers with one.
func bareLoop(b *testing.B) func(line string) time.Duration {
	cmd := exec.Command(python(b), "-c", "import sys\nfor line in sys.stdin:\n    exec(line)\n    print('done', flush=True)")
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, w, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	w.Close()
	b.Cleanup(func() { in.Close(); out.Close(); cmd.Wait() })
	buf := make([]byte, 64)
	return func(line string) time.Duration {
		begin := time.Now()
		io.WriteString(in, line)
		if _, err := out.Read(buf); err != nil {
			b.Fatal(err)
		}
		return time.Since(begin)
	}
}

// BenchmarkInterruptSleep is the time from a stop to the end of a job that sleeps. Aim: under 20
// ms.
func BenchmarkInterruptSleep(b *testing.B) {
	s := newBench(b)
	jobstest.End(b, s.start("import time"))
	var total time.Duration
	for b.Loop() {
		j := s.start("print('on', flush=True); time.sleep(300)")
		jobstest.Prints(b, j, "on")
		begin := time.Now()
		j.Stop(stop(jobs.Interrupt))
		<-j.Done()
		total += time.Since(begin)
	}
	b.ReportMetric(float64(total)/1e6/float64(b.N), "ms/interrupt")
}

// BenchmarkVariables is a list of a namespace of 10,000 names. Aim: under 30 ms.
func BenchmarkVariables(b *testing.B) {
	s := newBench(b)
	jobstest.End(b, s.start("for i in range(10_000): globals()[f'name{i}'] = [i, str(i)]"))
	for b.Loop() {
		if v, err := s.s.Variables(b.Context(), ""); err != nil || v.Total != 10_001 {
			b.Fatal(v.Total, err)
		}
	}
}
