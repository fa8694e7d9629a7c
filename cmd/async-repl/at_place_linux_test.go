package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"asyncrepl/internal/test/kubetest"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/internal/test/slurmtest"
	"asyncrepl/internal/test/sshdtest"
)

// Each test has an sshd or a cluster of Slurm of its own. The cluster of Kubernetes is that of .ci/kubernetes, and the
// pods see nothing of this machine but its programs.
func init() {
	carriers["ssh"] = func(s *started) map[string]any {
		return map[string]any{"ssh": sshdtest.Start(s.t).Args()}
	}
	carriers["slurm"] = func(s *started) map[string]any {
		c := slurmtest.Start(s.t)
		s.cmd.Env = append(s.cmd.Env, "SLURM_CONF="+c.Conf)
		return map[string]any{"slurm": []string{"--partition=short", "--time=10"}}
	}
	carriers["kubernetes"] = func(s *started) map[string]any {
		return map[string]any{"kubernetes": podFile(s.t, filepath.Dir(s.setting("REPL_STATE_DIR")))}
	}
}

// podFile writes the file of a Pod, and returns its name in a directory. All such pods must have ended with the test.
func podFile(t testing.TB, dir string) string {
	t.Helper()
	python := filepath.Dir(filepath.Dir(realPython()))
	file := kubetest.Pod(t, append([]string{python}, kubetest.Programs...), "{}", "{}")
	must.Do(t, os.WriteFile(filepath.Join(dir, "pod.json"), file, 0o600))
	t.Cleanup(func() {
		polltest.Until(t, "the end of the pods", func() bool {
			pods := must.Get(exec.Command("kubectl", "get", "pods", "-o", "name", "-l", kubetest.Selector(t)).Output())(t)
			return len(pods) == 0
		})
	})
	return "pod.json"
}

// A pod is checked, waits for input, and is deleted by a person. The session continues in the next one.
func TestRealPodOfAServer(t *testing.T) {
	m := newFarMachine(t)
	file := m.write(map[string]spec{"pods": {"kubernetes": "pod.json", "workspace": "/data", "python": realPython()}})
	podFile(t, filepath.Dir(file))
	check := m.command("places", "check", "-places", file)
	check.Dir = t.TempDir() // the workspace
	out, err := check.CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "evidence: a prompt that waits is seen, and takes an answer\nok     pods: end: the allocation was given back\n") {
		t.Errorf("%v:\n%s", err, out)
	}

	s := startServer(t, "REPL_PLACES="+file)
	pod := func(id, status string) string {
		t.Helper()
		s.do("wait_for_jobs", "job_ids", []string{id}, "wait_seconds", 100)
		r := s.do("check_job_status", "job_id", id)
		name, node, _ := strings.Cut(strings.TrimPrefix(r.Header("Place"), "pods (pod "), ", ")
		if r.Header("Status") != status || node != "node node1)" {
			t.Fatalf("it is not %s:\n%s", status, r)
		}
		return name
	}
	asks := s.do("execute_python", "on", "pods", "code", "x = 5\ninput('? ')", "wait_seconds", 0).Header("Job ID")
	first := pod(asks, "waiting_input")
	must.Get(exec.Command("kubectl", "delete", "pod", first, "--wait=false").Output())(t)
	var end string
	polltest.Until(t, "the end of the job", func() bool {
		end = s.do("check_job_status", "job_id", asks).Header("Status")
		return end != "waiting_input" && end != "running"
	})
	if end != "failed (pod "+first+" ended: deleted; variables lost)" &&
		end != "failed (Kubernetes no longer knows pod "+first+"; how it ended is unknown; variables lost)" { // it was gone at once
		t.Errorf("the job in the deleted pod is %s", end)
	}
	next := s.do("execute_python", "session", "pods", "on", "pods", "code", "'x' in globals()", "wait_seconds", 0).Header("Job ID")
	if second := pod(next, "completed"); second == first {
		t.Errorf("it ran in %s", second)
	}
	if got := s.end(next).Section("RESULT"); got != "False\n" {
		t.Errorf("the variables: %q", got)
	}
}
