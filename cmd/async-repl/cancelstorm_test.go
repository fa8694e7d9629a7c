package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"asyncrepl/internal/mcp/client"
	"asyncrepl/jobs/jobstest"
)

// bystanders are trees that no test ends: each of their processes must survive when others end.
var bystanders = []string{
	"fan child sleep", "double setsid nohup sleep", "group fan double sleep", "deaf closed setsid double sleep",
}

// stopWays are the ways to end a job of the storm.
var stopWays = []string{"force", "cancel, then force", "input", "restart", "nothing"}

// TestCancelStorm ends jobs in parallel, at random moments and in all ways. Each process that an
// ended job left must be named in its receipt, and no other job must be affected.
func TestCancelStorm(t *testing.T) {
	if testing.Short() {
		t.Skip("a storm")
	}
	t.Parallel()
	rounds, seed := jobstest.Storm(t, stormRounds)
	s := newStorm(t, rand.New(rand.NewPCG(seed, 0)))
	watched := newTag()
	var others []string // jobs
	for _, words := range bystanders {
		others = append(others, s.do("execute_command_async", "command", s.line(watched, words)+"; read x", "wait_seconds", 0).Header("Job ID"))
	}
	r := s.do("execute_python", "session", "bystander", "wait_seconds", 60,
		"code", fmt.Sprintf("import os, subprocess\nkept = subprocess.Popen(['sleep', '%s'])\nprint(f'pid {os.getpid()}.')", watched))
	worker := planted(t, r)
	before := s.settled(watched)

	for i := range (rounds + 5) / 6 { // of six jobs each
		var wg sync.WaitGroup
		for hand := range 6 {
			r := rand.New(rand.NewPCG(seed, uint64(1+i*6+hand)))
			wg.Go(func() { s.endOne(t, r, strconv.Itoa(hand)) })
		}
		wg.Wait()
		if after := tagged(watched); !slices.Equal(after, before) {
			t.Fatalf("round %d: the bystanders were %v and are %v", i, before, after)
		}
	}

	for _, id := range others {
		if status := s.do("check_job_status", "job_id", id).Header("Status"); status != "waiting_input" && status != "running" {
			t.Errorf("a bystander is %s", status)
		}
	}
	r = s.do("execute_python", "session", "bystander", "wait_seconds", 60, "code", "print(f'pid {os.getpid()}.', kept.poll())")
	if planted(t, r) != worker || !strings.Contains(r.Section("STDOUT"), "None") {
		t.Errorf("the bystanders' worker was %d: %s", worker, r)
	}
}

// line returns a command that grows a tree of these words with a tag of its own.
func (s *storm) line(tag, words string) string {
	return fmt.Sprintf("bash %s/tree.sh %s %s", s.dir, tag, words)
}

// settled waits until the processes with a tag no longer change.
func (s *storm) settled(tag string) (pids []int) {
	for same := 0; same < 20; s.pause(10 * time.Millisecond) {
		now := tagged(tag)
		if same++; len(now) == 0 || !slices.Equal(now, pids) {
			same = 0
		}
		pids = now
	}
	return pids
}

// endOne starts a job with a tree and ends it in one of the ways.
func (s *storm) endOne(t *testing.T, r *rand.Rand, session string) {
	tag := newTag()
	words := randomTree(r, true)
	line := s.line(tag, words)
	way := stopWays[r.IntN(len(stopWays))]
	tool, args := "execute_command_async", map[string]any{"command": line + "; read x", "tty": r.IntN(2) == 0}
	if way == "restart" {
		tool, args = "execute_python", map[string]any{"code": fmt.Sprintf("import subprocess; subprocess.run('%s', shell=True); input()", line), "session": session}
	}
	args["wait_seconds"] = 0
	started, err := s.Call(s.ctx(), tool, args)
	if err != nil {
		t.Error(err)
		return
	}
	id := started.Header("Job ID")
	s.pause(time.Duration(r.ExpFloat64() * float64(30*time.Millisecond)))
	switch way {
	case "force":
		s.try(t, "cancel_job", "job_id", id, "force", true)
	case "cancel, then force":
		s.Start("cancel_job", pairs([]any{"job_id", id}))
		s.pause(time.Duration(r.IntN(50)) * time.Millisecond)
		s.try(t, "cancel_job", "job_id", id, "force", true)
	case "restart":
		s.try(t, "restart_python_worker", "session", session)
	case "input":
		s.Start("send_command_input", pairs([]any{"job_id", id, "text", "\n"})) // it can end by itself after that
	}
	s.pause(time.Duration(r.IntN(20)) * time.Millisecond)
	s.try(t, "cancel_job", "job_id", id, "force", true) // ends what an ended job left
	checkEnd(t, s.await(t, id), way+", "+words, tag)
}

// checkEnd checks the last reply about a job with a tree of that tag. The string what is how the
// job was ended and the words of its tree.
func checkEnd(t *testing.T, end client.Reply, what, tag string) {
	status := end.Header("Status")
	expected := []string{"cancelled (", "failed (exit", "failed (not run"}
	if strings.HasPrefix(what, "input, ") { // the job can end by itself, also while it is being stopped
		expected = append(expected, "completed")
	}
	if !slices.ContainsFunc(expected, func(start string) bool { return strings.HasPrefix(status, start) }) {
		t.Errorf("%s: %s", what, end)
	}
	if survivors := end.Header("Survivors"); survivors != "" {
		t.Errorf("%s: survivors %s", what, survivors)
	}
	unclaimed := end.Header("Unclaimed")
	if unclaimed != "" && strings.Contains(what, "bare") && strings.Contains(what, "hops") {
		return // by now the named process can be replaced by another that nothing ties to the job
	}
	for _, pid := range tagged(tag) {
		if !strings.Contains(unclaimed, fmt.Sprintf("(pid %d)", pid)) {
			stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			t.Errorf("%s: process %d outlives it: %s\n%s", what, pid, stat, end)
		}
	}
}

// try is do for goroutines that are not the test's.
func (s *storm) try(t *testing.T, tool string, args ...any) client.Reply {
	r, err := s.Call(s.ctx(), tool, pairs(args))
	if err != nil {
		t.Errorf("%s: %v", tool, err)
	}
	return r
}

// await is end for goroutines that are not the test's.
func (s *storm) await(t *testing.T, id string) client.Reply {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		r := s.try(t, "check_job_status", "job_id", id, "wait_seconds", 50)
		if status := r.Header("Status"); !strings.HasPrefix(status, "running") && status != "queued" && status != "waiting_input" {
			return r
		}
	}
	t.Errorf("job %s does not end", id)
	return ""
}

// tagged returns the pids of the living processes with a tag among their arguments, in order.
func tagged(tag string) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		line, _ := os.ReadFile(file)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if slices.ContainsFunc(bytes.Split(line, []byte{0}), func(a []byte) bool { return string(a) == tag }) && alive(pid) {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}
