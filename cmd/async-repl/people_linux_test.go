package main

import (
	"strings"
	"testing"

	"asyncrepl/internal/client/sockets"
	"asyncrepl/internal/test/polltest"
)

// A person sees when an engine without a client ends, answers its job, and takes nothing from the
// next client: neither the engine nor the news.
func TestPersonBesideAnEngineWithoutAClient(t *testing.T) {
	t.Parallel()
	a := startEngine(t)
	id := a.do("execute_command_async", "command", "printf 'Name? '; read x; echo ${#x}; exit 5", "wait_seconds", 60).Header("Job ID")
	hangs := a.do("execute_command_async", "command", "sleep 1000", "wait_seconds", 0).Header("Job ID")
	a.name()
	a.lose()
	a.unattended()
	if out, code := a.person("send", id, "Ada"); out != "delivered\n" || code != 0 {
		t.Errorf("send: %q, exit %d", out, code)
	}
	if out, code := a.person("wait", id); out != id+" failed (exit 5)\n" || code != 5 {
		t.Errorf("wait: %q, exit %d", out, code)
	}
	if out, code := a.person("logs", "--view", "raw", id); out != "Name? Ada\r\n3\r\n" || code != 0 {
		t.Errorf("logs: %q, exit %d", out, code)
	}
	a.cmd.Env = append(a.cmd.Env, "REPL_KEEPER=on")
	out, code := a.person("doctor") // the doctor starts another engine
	for _, line := range []string{"ok     engine: process ", "ok     sockets: commands reach engines in ", "ok     client: jobs can outlive the client that started them\n"} {
		if !strings.Contains(out, "\n"+line) || code > 1 {
			t.Errorf("doctor does not say %q: exit %d\n%s", line, code, out)
		}
	}
	next := a.takeOver(sockets.Hello{Env: a.cmd.Env})
	if got := next.do("check_job_status", "job_id", hangs); !strings.Contains(got.Header("Resumed"), hangs) || !strings.Contains(got.Header("Also"), "job "+id+" failed (exit 5)") {
		t.Errorf("the next client reads:\n%s", got)
	}
	if got := next.do("check_job_status", "job_id", id).Header("Answered"); !strings.HasPrefix(got, "by a person, ") {
		t.Errorf("of the answer it reads %q", got)
	}
}

// unattended waits until ps says that the engine waits for a client.
func (a *attached) unattended() {
	a.t.Helper()
	polltest.Until(a.t, "the engine waits for a client", func() bool {
		out, _ := a.person("ps")
		_, line, _ := strings.Cut(out, "  "+sockets.Resolve(a.dir)+"  up ")
		line, _, _ = strings.Cut(line, "\n")
		return strings.Contains(line, ", no client; ends in 1m")
	})
}

// The doctor takes no engine over, even if that has the settings of the doctor's own: its goodbye
// would end the jobs.
func TestDoctorTakesNoEngineOver(t *testing.T) {
	t.Parallel()
	a := startEngine(t, "REPL_HISTORY=0", "REPL_KEEPER=on")
	id := a.do("execute_command_async", "command", "sleep 1000", "wait_seconds", 0).Header("Job ID")
	a.name()
	a.lose()
	a.unattended()
	if out, code := a.person("doctor"); code > 1 || !strings.Contains(out, "\nok     client: jobs can outlive") {
		t.Errorf("doctor: exit %d\n%s", code, out)
	}
	if got := a.takeOver(sockets.Hello{Env: a.cmd.Env}).do("check_job_status", "job_id", id).Header("Status"); got != "running" {
		t.Errorf("the job is %s", got)
	}
}
