package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/mcp/client"
)

// pss returns the proportional set size of a process, in KiB.
func pss(b *testing.B, pid int) int {
	b.Helper()
	rollup, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(rollup), "\nPss:")
	if !ok {
		b.Fatalf("no PSS in %s", rollup)
	}
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		b.Fatal(err)
	}
	return kib
}

// family returns a process and all its descendants.
func family(pid int) []int {
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		all = append(all, children(all[i])...)
	}
	return all
}

// processorTime returns the CPU time that a process has used.
func processorTime(b *testing.B, pid int) time.Duration {
	b.Helper()
	const measured = 2 // CPUCLOCK_SCHED: by the scheduler, to the nanosecond
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|measured), &t); err != nil {
		b.Fatal(err)
	}
	return time.Duration(t.Nano())
}

// Aim: 25 MiB for server, guard and one idle session. The program is built as it is shipped: this
// binary has its tests in it. The bare interpreter's memory is reported beside it; it varies more
// between interpreters than the server adds to it.
func BenchmarkTreeAtRest(b *testing.B) {
	python := realPython()
	shipped := filepath.Join(b.TempDir(), "async-repl")
	if out, err := exec.Command("go", "build", "-o", shipped, ".").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	var servers, trees, bare int
	for b.Loop() {
		s := prepare(b, "REPL_PYTHON="+python)
		s.cmd.Path, s.cmd.Args = shipped, []string{shipped}
		s.open()
		s.do("execute_python", "code", "x = 1")
		s.do("execute_command_async", "command", "true") // starts the guard
		all := family(s.cmd.Process.Pid)
		if len(all) != 3 {
			b.Fatalf("%d processes, not server, guard and worker", len(all))
		}
		servers += pss(b, all[0])
		for _, pid := range all {
			trees += pss(b, pid)
		}
		s.stdin.Close()
		s.exit()
		bare += pssOfBare(b, python)
	}
	for unit, kib := range map[string]int{"MiB": trees, "MiB-server": servers, "MiB-bare-python": bare} {
		b.ReportMetric(float64(kib)/1024/float64(b.N), unit)
	}
	b.ReportMetric(0, "ns/op")
}

// pssOfBare returns the memory of an interpreter that waits for input, in KiB.
func pssOfBare(b *testing.B, python string) int {
	b.Helper()
	cmd := exec.Command(python, "-c", "print(flush=True); input()")
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	if _, err := out.Read(make([]byte, 1)); err != nil {
		b.Fatal(err)
	}
	return pss(b, cmd.Process.Pid)
}

// Aims: under 1 % of a CPU for 500 idle jobs, and under 100 KB for each, with just under 4 KB of
// output. The memory is the server's PSS: the kernel's memory for terminals and pipes and that of
// the jobs' own processes do not count.
func BenchmarkIdleServer(b *testing.B) {
	const jobs = 500
	for name, tty := range map[string]bool{"terminal": true, "pipes": false} {
		b.Run(name, func(b *testing.B) {
			s := startServer(b)
			pid := s.cmd.Process.Pid
			s.do("execute_command_async", "command", "true")
			before := pss(b, pid)
			for range jobs {
				s.do("execute_command_async", "command", "printf %04000d 0; exec sleep 1000", "tty", tty, "wait_seconds", 0)
			}
			for last := client.Reply(""); !strings.Contains(string(last), "running"); last = s.do("list_jobs", "limit", 1) {
				if strings.Contains(string(last), "failed") {
					b.Fatal(last)
				}
			}
			time.Sleep(6 * time.Second) // until the starts no longer use the CPU, and no job is young (see package listening)
			more := pss(b, pid) - before
			var used, wall time.Duration
			for b.Loop() {
				began, at := time.Now(), processorTime(b, pid)
				time.Sleep(5 * time.Second)
				used += processorTime(b, pid) - at
				wall += time.Since(began)
			}
			b.ReportMetric(float64(more)/jobs*1.024, "KB/job")
			b.ReportMetric(100*used.Seconds()/wall.Seconds(), "%cpu")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// Aim: a poll takes less than 100 ms while eight jobs print as fast as they can, on a machine whose
// CPUs are all busy with that.
func BenchmarkPollInFlood(b *testing.B) {
	s := startServer(b, "REPL_MAX_OUTPUT=64MiB")
	ids := startFloods(b, s)
	cursors := make(map[string]string)
	var took []time.Duration
	for b.Loop() {
		for _, id := range ids {
			args := []any{"job_id", id}
			if c, err := strconv.Atoi(cursors[id]); err == nil {
				args = append(args, "cursor", c)
			}
			begin := time.Now()
			r := s.do("check_job_status", args...)
			took = append(took, time.Since(begin))
			cursors[id] = r.Header("Cursor")
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2])/1e6, "ms-median")
	b.ReportMetric(float64(took[len(took)*99/100])/1e6, "ms-99%")
	b.ReportMetric(float64(took[len(took)-1])/1e6, "ms-max")
	b.ReportMetric(float64(pss(b, s.cmd.Process.Pid))/1024, "MiB")
	b.ReportMetric(0, "ns/op")
}

// Aim: a poll of a job with 1 GB of output takes as long as one with 1 KB. Both ask for the new
// output, which is the last 500 bytes.
func BenchmarkPollOfAGigabyte(b *testing.B) {
	s := startServer(b)
	poll := func(size int) func() time.Duration {
		r := s.do("execute_command_async", "command", fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x; exec sleep 1000", size), "tty", false, "wait_seconds", 0)
		id := r.Header("Job ID")
		for r.Header("Cursor") != strconv.Itoa(size) {
			r = s.do("check_job_status", "job_id", id, "wait_seconds", 0.05)
		}
		return func() time.Duration {
			begin := time.Now()
			s.do("check_job_status", "job_id", id, "cursor", size-500)
			return time.Since(begin)
		}
	}
	compare(b, poll(1_000_000_000), poll(1_000))
}
