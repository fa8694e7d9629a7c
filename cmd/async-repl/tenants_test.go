//go:build linux

package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/test/polltest"
)

// A member is a client of a tenant.
type member struct {
	started // its dir is the tenant's workspace
	t       *testing.T
	said    strings.Builder // all replies
}

// serveTenants starts a server of several tenants with all tools, and returns a client of each.
func serveTenants(t *testing.T, names string, args ...string) (members []*member) {
	t.Helper()
	f := newTokens(t, strings.Fields(names)...)
	s := serveWith(t, append(args, "-listen", "127.0.0.1:0", "-tokens", f.path, "-trusted-tenants", "-toolsets", "all")...)
	for i, name := range strings.Fields(names) {
		version := []string{client.Older, client.Newer, client.Newer}[i]
		m := &member{started: *s, t: t}
		m.dir = filepath.Join(s.dir, name)
		m.Client = s.join(version, f.tokens[name])
		members = append(members, m)
	}
	return members
}

// ask calls a tool and returns its reply, and whether it is a refusal.
func (m *member) ask(tool string, args map[string]any) (text string, refused bool) {
	m.t.Helper()
	r, err := m.Call(m.ctx(), tool, args)
	if err != nil && !errors.Is(err, client.ErrTool) {
		m.t.Fatal(err)
	}
	text = string(r)
	if err != nil {
		_, text, _ = strings.Cut(err.Error(), client.ErrTool.Error()+": ")
	}
	m.said.WriteString(text + "\n")
	return text, err != nil
}

// do calls a tool that must succeed.
func (m *member) do(tool string, args map[string]any) client.Reply {
	m.t.Helper()
	text, refused := m.ask(tool, args)
	if refused {
		m.t.Fatalf("%s %v: %s", tool, args, text)
	}
	return client.Reply(text)
}

// until repeats a call until its reply holds text.
func (m *member) until(tool string, args map[string]any, text string) {
	m.t.Helper()
	polltest.Check(m.t, func() error {
		if r := m.do(tool, args); !strings.Contains(string(r), text) {
			return fmt.Errorf("no %q in the reply of %s:\n%s", text, tool, r)
		}
		return nil
	})
}

// A job of a tenant that runs as many jobs as are allowed waits for those jobs. A tenant that has as
// many sessions as are allowed is refused more, with its own idle session. The others are not.
func TestLimitsAreOfEachTenant(t *testing.T) {
	t.Parallel()
	members := serveTenants(t, "alice bob", "-max-jobs", "2", "-max-sessions", "1")
	for _, m := range members {
		first := m.do("execute_command_async", map[string]any{"command": "read first", "wait_seconds": 0}).Header("Job ID")
		m.do("execute_command_async", map[string]any{"command": "read second", "wait_seconds": 0})
		third := m.do("execute_command_async", map[string]any{"command": "read third", "wait_seconds": 0})
		if queued := third.Header("Queued"); !strings.HasPrefix(queued, "2 jobs are running") || !strings.Contains(queued, first) {
			t.Errorf("a third job:\n%s", third)
		}
		m.do("create_session", map[string]any{"name": filepath.Base(m.dir) + "-lab"})
		text, refused := m.ask("create_session", map[string]any{"name": "another"})
		if !refused || !strings.Contains(text, "1 session is open") || !strings.Contains(text, filepath.Base(m.dir)+"-lab") {
			t.Errorf("a second session: %s", text)
		}
		if r := m.do("server_status", nil); !strings.HasPrefix(r.Header("Jobs"), "2 of at most 2 at once") || r.Header("Sessions") != "1 of at most 1" {
			t.Errorf("the state of the server:\n%s", r)
		}
	}
}

// Nothing that a tenant has started outlives the server.
func TestNothingOfTenantsOutlivesTheServer(t *testing.T) {
	if testing.Short() {
		t.Skip("it makes environments")
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			members := serveTenants(t, "alice bob")
			pids := slices.Concat(plant(t, &members[0].started), plant(t, &members[1].started))
			members[0].cmd.Process.Signal(sig)
			members[0].exit()
			gone(t, pids)
		})
	}
}

// What one tenant installs, another one can't import.
func TestTenantsInstallForThemselves(t *testing.T) {
	if testing.Short() {
		t.Skip("it makes environments")
	}
	t.Parallel()
	members := serveTenants(t, "alice bob")
	alice, bob := members[0], members[1]
	spam := saveWheel(t, alice.dir, "spam", "1.0", "value = 1")
	alice.do("install_package_async", map[string]any{"package": spam, "wait_seconds": 60})
	code := map[string]any{"code": "import spam; spam.value", "wait_seconds": 60}
	if r := alice.do("execute_python", code); r.Header("Status") != "completed" {
		t.Errorf("the tenant that installed it:\n%s", r)
	}
	if r := bob.do("execute_python", code); !strings.Contains(r.Header("Status"), "ModuleNotFoundError") {
		t.Errorf("another tenant:\n%s", r)
	}
	for _, m := range members {
		r := m.do("execute_command_async", map[string]any{"command": "pip list; command -v python", "wait_seconds": 60})
		if has := strings.Contains(string(r), "spam"); has != (m == alice) || !strings.Contains(string(r), m.dir+"/.venv/bin/python") {
			t.Errorf("in a shell of %s:\n%s", m.dir, r)
		}
	}
}

// A tenant without a token ends when it has nothing to do, and can come back. Its jobs are past then.
func TestTenantWithoutATokenEnds(t *testing.T) {
	file := newTokens(t, "alice", "bob")
	lines := file.lines(t)
	s := serveWith(t, "-listen", "127.0.0.1:0", "-tokens", file.path, "-trusted-tenants", "-session-ttl", "10ms", "-log-level", "info")
	url := s.url()
	id := newerClient(t, url, file.tokens["alice"]).do("execute_command_async", "command", "true", "wait_seconds", 60).Header("Job ID")
	file.write(t, lines[1])
	s.hangUp("tokens reread")
	polltest.Until(t, "the end of the tenant", func() bool {
		return strings.Contains(s.log.String(), `msg="a tenant without a token has ended" tenant=alice`)
	})
	if s.confined { // its process ends a moment later
		polltest.Until(t, "the end of its process", func() bool { return s.tenantChain(filepath.Join(s.dir, "alice")) == nil })
	}
	file.write(t, lines...)
	s.hangUp("tokens reread")
	if got := newerClient(t, url, file.tokens["alice"]).do("check_job_status", "job_id", id); got.Header("Past") == "" {
		t.Errorf("after the tenant came back: %s", got)
	}
}
