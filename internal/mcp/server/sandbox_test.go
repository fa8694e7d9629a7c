package server

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/reply/overview"
	"asyncrepl/jobs"
)

// A caller calls tools that must not refuse, in one of the two eras of the protocol.
type caller func(tool string, a given) string

// inBothEras runs a test with a caller of each era, of a server with a sandbox or without one.
func inBothEras(t *testing.T, sandbox string, test func(t *testing.T, w *world, call caller)) {
	t.Helper()
	for _, version := range []string{"2026-07-28", "2025-11-25"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.sandbox = sandbox
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			session := connectSDK(t, transports["stdio"](t, New(ctx, w.config, w.scope(engine.Scope{})), leave), version)
			test(t, w, func(tool string, a given) string {
				t.Helper()
				r, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: a})
				if err != nil || r.IsError {
					t.Fatalf("%s(%v): %v, %+v", tool, a, err, r)
				}
				return r.Content[0].(*mcp.TextContent).Text
			})
		})
	}
}

// Every reply of a failed job says once what its sandbox is, and no other reply does.
func TestOnlyFailedJobsRepeatTheSandbox(t *testing.T) {
	const line = "\nSandbox: workspace; network none\n"
	for _, sandbox := range []string{"", "workspace; network none"} {
		t.Run(sandbox, func(t *testing.T) {
			inBothEras(t, sandbox, func(t *testing.T, w *world, call caller) {
				says := func(n int, what, reply string) string {
					t.Helper()
					if sandbox == "" {
						n = 0
					}
					if got := strings.Count(reply, line); got != n || strings.Count(reply, "Sandbox: ") != n {
						t.Errorf("%s says it %d times, want %d:\n%s", what, got, n, reply)
					}
					return field(reply, "Job ID")
				}
				raised := says(1, "an exception", call("execute_python", given{"code": `raise "E: no"`}))
				says(1, "the status of Python", call("check_python_status", nil))
				exited := says(1, "an exit", call("execute_command_async", given{"command": "exit 3"}))
				says(1, "a status", call("check_job_status", given{"job_id": exited}))
				says(1, "a page of it", call("check_job_status", given{"job_id": exited, "cursor": 0}))
				says(1, "a cancel after the end", call("cancel_job", given{"job_id": exited}))
				says(1, "a wait that shows output", call("wait_for_jobs", given{"job_ids": []string{exited}, "show": true}))
				says(1, "a timeout", call("execute_command_async", given{"command": "hang", "timeout_seconds": 0.01, "wait_seconds": 60}))

				completed := says(0, "a job that ended well", call("execute_python", given{"code": `out "Sandbox"`}))
				says(1, "a wait for three", call("wait_for_jobs", given{"job_ids": []string{completed, raised, exited}, "until": "all"}))
				says(0, "a wait for one that ended well", call("wait_for_jobs", given{"job_ids": []string{completed}}))
				says(0, "a question", call("execute_python", given{"code": `ask line "? "`, "wait_seconds": 60}))
				says(0, "an answer", call("send_python_input", given{"text": "x"}))
				running := says(0, "a job that runs", call("execute_command_async", given{"command": "hang", "wait_seconds": 0}))
				says(0, "a cancelled job", call("cancel_job", given{"job_id": running}))
				says(0, "a list", call("list_jobs", nil))
				says(0, "a search", call("search_job_output", given{"job_id": exited, "pattern": "x"}))
			})
		})
	}
}

// A reply says of each file that the sandbox protects no more that it can be written, once, whatever the reply
// is about. A long list is counted. The state of the server says all, as long as it holds.
func TestUnprotectedFileIsSaidOnce(t *testing.T) {
	lines := func(from, to int) (list []string) {
		for i := from; i <= to; i++ {
			list = append(list, fmt.Sprintf("/w/%d can be written now", i))
		}
		return list
	}
	inBothEras(t, "", func(t *testing.T, w *world, call caller) {
		w.status = func(_ engine.Scope, s *overview.Server) {
			w.mu.Lock()
			defer w.mu.Unlock()
			s.Sandbox, s.Unprotected = "workspace", w.unprotected
		}
		lose := func(list []string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.unprotected = list
		}
		says := func(want []string, reply string) {
			t.Helper()
			var got []string
			for line := range strings.Lines(reply) {
				if text, ok := strings.CutPrefix(strings.TrimSpace(line), "Sandbox: "); ok {
					got = append(got, text)
				}
			}
			if strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("it says %q, want %q:\n%s", got, want, reply)
			}
		}
		says(nil, call("list_jobs", nil))
		lose(lines(1, 1))
		says(lines(1, 1), call("execute_python", given{"code": `out "x"`}))
		says(nil, call("execute_python", given{"code": `out "x"`}))
		lose(lines(1, 2))
		says(lines(2, 2), call("list_jobs", nil))
		lose(lines(1, 8))
		says(append(lines(3, 5), "3 more files are no longer protected: see server_status"), call("list_jobs", nil))
		says(append([]string{"workspace"}, lines(1, 8)...), call("server_status", nil))
		lose(lines(1, 9))
		says(append([]string{"workspace"}, lines(1, 9)...), call("server_status", nil))
		says(nil, call("list_jobs", nil))
		lose(nil)
		says([]string{"workspace"}, call("server_status", nil))
	})
}

// What a job is denied is in each of its replies, while it runs and after its end, and in its JSON.
func TestDenialsOfAJob(t *testing.T) {
	inBothEras(t, "", func(t *testing.T, w *world, call caller) {
		says := func(want, reply string) {
			t.Helper()
			_, got, _ := strings.Cut(reply, "\nDenied: ")
			if got, _, _ = strings.Cut(got, "\n"); got != want {
				t.Errorf("it says %q, want %q:\n%s", got, want, reply)
			}
		}
		reply := call("execute_command_async", given{"command": "gate go\nexit 7", "wait_seconds": 0})
		id, j := field(reply, "Job ID"), w.job(reply)
		says("", reply)
		j.Deny("CONNECT evil.example:443", jobs.Process{PID: 8, Program: "curl"})
		const one = "CONNECT evil.example:443 by curl (pid 8)"
		says(one, call("check_job_status", given{"job_id": id}))
		w.open("go")
		says(one, call("wait_for_jobs", given{"job_ids": []string{id}}))
		says(one, call("check_job_status", given{"job_id": id}))
		says("", call("execute_python", given{"code": `raise "E: no"`}))
		says("", call("list_jobs", nil))
	})
}
