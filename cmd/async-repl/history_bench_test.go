//go:build unix

package main

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"
)

// Aim: 1.05x the same job without records, as the lower quartile of paired blocks.
func BenchmarkRecords(b *testing.B) {
	s, floor := startServer(b), startServer(b, "REPL_HISTORY=0")
	s.do("execute_python", "code", "x=1")
	floor.do("execute_python", "code", "x=1")
	comparePaired(b,
		func() { s.do("execute_python", "code", "x=1") },
		func() { floor.do("execute_python", "code", "x=1") })
}

// fill makes a state directory with ten workspaces of 1,000 past jobs each, and returns it with one
// of the workspaces.
func fill(b *testing.B) (state, workspace string) {
	state = filepath.Join(b.TempDir(), "state")
	for range 10 {
		s := startServer(b, "REPL_STATE_DIR="+state)
		for range 10 {
			ids := make([]string, 100)
			for i := range ids {
				r := s.do("execute_command_async", "command", fmt.Sprintf("echo job %d of many", i), "tty", false)
				ids[i] = r.Header("Job ID")
			}
		}
		workspace = s.dir
		s.stop()
		s.exit()
	}
	return state, workspace
}

// Aim: with ten workspaces of 1,000 past jobs, a start takes 1.05x as long as without any, to the
// first answer and to the first reply about a job.
func BenchmarkStartWithPastJobs(b *testing.B) {
	state, workspace := fill(b)
	start := func(env string, call bool) time.Duration {
		s := prepare(b, "REPL_PYTHON="+realPython(), env)
		s.dir, s.cmd.Dir = workspace, workspace
		begin := time.Now()
		s.open()
		if call {
			s.do("execute_command_async", "command", "echo hi")
		}
		d := time.Since(begin)
		s.stop()
		s.exit()
		return d
	}
	for name, call := range map[string]bool{"answer": false, "job": true} {
		b.Run(name, func(b *testing.B) {
			compare(b,
				func() time.Duration { return start("REPL_STATE_DIR="+state, call) },
				func() time.Duration { return start("REPL_STATE_DIR="+filepath.Join(b.TempDir(), "state"), call) })
		})
	}
	// Aims: the newest 20 in 2 ms, all of a workspace in 150 ms. The floor is a call that reads
	// nothing.
	s := prepare(b, "REPL_PYTHON="+realPython(), "REPL_STATE_DIR="+state)
	s.dir, s.cmd.Dir = workspace, workspace
	s.open()
	for name, args := range map[string][]any{"newest20": {"limit", 20}, "all": {"status", "cancelled"}} {
		b.Run(name, func(b *testing.B) {
			compare(b,
				func() time.Duration {
					begin := time.Now()
					s.do("list_jobs", args...)
					return time.Since(begin)
				},
				func() time.Duration {
					begin := time.Now()
					s.do("list_sessions")
					return time.Since(begin)
				})
		})
	}
}
