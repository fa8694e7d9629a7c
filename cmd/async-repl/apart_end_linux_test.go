package main

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
)

// Nothing is left of tenants in sandboxes when their server ends. At a signal, the calls in flight are answered.
func TestTenantsInASandboxEndWithTheServer(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			f, tag := newTokens(t, "alice", "bob"), newTag()
			s := prepareTenants(t, true, f)
			s.cmd.Env = append(s.cmd.Env, "STORM="+tag)
			s.begin()
			var calls []*client.Pending
			for tenant, version := range map[string]string{"alice": client.Newer, "bob": client.Older} {
				c := s.as(t, f, tenant, version)
				calls = append(calls, must.Get(c.Start("execute_command_async", map[string]any{"command": "trap '' TERM HUP INT; setsid sh -c 'trap \"\" TERM HUP INT; sleep 1000' & touch begun; sleep 1000", "wait_seconds": 100}))(t))
				polltest.Until(t, "the job to begin", func() bool { _, err := os.Stat(filepath.Join(c.dir, "begun")); return err == nil })
				polltest.Until(t, "the job to run", func() bool { return c.do("list_jobs", "status", "running").Header("Jobs") == "1, newest first" })
			}
			s.cmd.Process.Signal(sig)
			for _, call := range calls {
				r, err := call.Reply(s.ctx())
				if sig == syscall.SIGTERM && (err != nil || r.Header("Status") != "running") {
					t.Errorf("a call was answered with %v, %s", err, r)
				}
			}
			if got := s.exit(); sig == syscall.SIGTERM && got != "exit status 0" {
				t.Errorf("the server ended with %s", got)
			}
			(&storm{started: &started{t: t, dir: "none"}, tag: tag}).clear()
			if left := must.Get(filepath.Glob(filepath.Join(s.setting("REPL_STATE_DIR"), "sandbox/*/tmp/*")))(t); sig == syscall.SIGTERM && left != nil {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// failing returns the error of a call of a tenant.
func (s *started) failing() string {
	s.t.Helper()
	r, err := s.Call(s.ctx(), "list_jobs", nil)
	if !errors.Is(err, client.ErrTool) {
		s.t.Fatalf("the call was not refused: %v, %s", err, r)
	}
	return err.Error()
}

// killTenant kills the engine of a tenant, and waits until nothing of its sandbox is left.
func (s *started) killTenant() {
	s.t.Helper()
	chain := s.tenantChain(s.dir)
	if len(chain) != 4 {
		s.t.Fatalf("the processes of the tenant are %v", chain)
	}
	must.Do(s.t, syscall.Kill(chain[3], syscall.SIGKILL))
	polltest.Until(s.t, "the end of the sandbox", func() bool { return !there(chain[1]) })
}

// A sandbox that can't start later is an error of the tenant's calls, which says what to do. It is not tried
// again and again, and no other tenant notices.
func TestSandboxOfATenantThatCannotStart(t *testing.T) {
	t.Parallel()
	needsBwrap(t)
	f := newTokens(t, "alice", "bob")
	s := prepareTenants(t, true, f)
	bin := t.TempDir()
	bwrap, real := filepath.Join(bin, "bwrap"), must.Get(exec.LookPath("bwrap"))(t)
	for _, e := range must.Get(os.ReadDir(filepath.Dir(real)))(t) { // the PATH has no other directory
		must.Do(t, os.Symlink(filepath.Join(filepath.Dir(real), e.Name()), filepath.Join(bin, e.Name())))
	}
	s.cmd.Env = append(s.cmd.Env, "PATH="+bin)
	s.begin()
	alice, bob := s.as(t, f, "alice", client.Newer), s.as(t, f, "bob", client.Newer)
	alice.do("list_jobs")
	bob.do("list_jobs")
	again := func() {
		t.Helper()
		polltest.Check(t, func() error { // an error counts for a second
			_, err := alice.Call(s.ctx(), "list_jobs", nil)
			return err
		})
		bob.do("list_jobs")
	}

	must.Do(t, os.Remove(bwrap))
	alice.killTenant()
	if got := alice.failing(); !strings.Contains(got, "the server of this tenant could not be started: ") || !strings.Contains(got, "install the package bubblewrap") {
		t.Error(got)
	}
	bob.do("list_jobs")

	// One that fails, and says how often it is started.
	count := filepath.Join(bin, "count")
	must.Do(t, os.WriteFile(bwrap, []byte("#!/bin/sh\necho x >>"+count+"\necho some trouble >&2\nexit 1\n"), 0o755))
	polltest.Until(t, "the other error", func() bool { return strings.Contains(alice.failing(), "some trouble") })
	began := time.Now()
	var calls sync.WaitGroup
	for range 20 {
		calls.Go(func() { // joined below; ends with its calls
			for range 5 {
				if _, err := alice.Call(s.ctx(), "list_jobs", nil); !errors.Is(err, client.ErrTool) {
					t.Errorf("got %v", err)
				}
			}
		})
	}
	calls.Wait()
	most := 2 + int(time.Since(began)/failTime)
	if starts := bytes.Count(must.Get(os.ReadFile(count))(t), []byte("x")); starts > most {
		t.Errorf("100 calls have started bwrap %d times, more than %d", starts, most)
	}
	bob.do("list_jobs")

	must.Do(t, os.Remove(bwrap))
	must.Do(t, os.Symlink(real, bwrap))
	again()

	// What is at the path of the workspace.
	alice.killTenant()
	must.Do(t, os.Rename(alice.dir, alice.dir+".old"))
	must.Do(t, os.Symlink("bob", alice.dir))
	if got := alice.failing(); !strings.Contains(got, "overlap: give each its own") {
		t.Error(got)
	}
	must.Do(t, os.Remove(alice.dir))
	must.Do(t, os.WriteFile(alice.dir, nil, 0o600))
	polltest.Until(t, "the other error", func() bool { return strings.Contains(alice.failing(), "making the workspace of tenant alice: ") })
	must.Do(t, os.Remove(alice.dir)) // it is made again
	again()
}

// A person can replace the workspace of a tenant. SIGHUP ends its process, which has the directory of before.
func TestWorkspaceOfATenantIsReplaced(t *testing.T) {
	t.Parallel()
	f := newTokens(t, "alice", "bob")
	s := prepareTenants(t, true, f, "-log-level", "info")
	s.begin()
	alice, bob := s.as(t, f, "alice", client.Newer), s.as(t, f, "bob", client.Newer)
	job := bob.do("execute_command_async", "command", "echo mine >own; sleep 1000", "wait_seconds", 0).Header("Job ID")
	alice.do("execute_command_async", "command", "echo mine >own", "wait_seconds", 60)
	must.Do(t, os.Rename(alice.dir, alice.dir+".old"))
	must.Do(t, os.Symlink("bob", alice.dir))
	s.hangUp("tokens not reread; those before stay in use")
	must.Do(t, os.Remove(alice.dir))
	must.Do(t, os.Mkdir(alice.dir, 0o700))
	s.hangUp("tokens reread")
	polltest.Check(t, func() error {
		r, err := alice.Call(s.ctx(), "execute_command_async", map[string]any{"command": "ls; echo new >new", "wait_seconds": 60})
		if err == nil && (strings.Contains(string(r), "own") || r.Header("Status") != "completed") { // the one before, or its end
			err = errors.New(string(r))
		}
		return err
	})
	if got := string(must.Get(os.ReadFile(filepath.Join(alice.dir, "new")))(t)); got != "new\n" {
		t.Errorf("got %q", got)
	}
	if got := bob.do("check_job_status", "job_id", job).Header("Status"); got != "running" {
		t.Errorf("the job of the other tenant is %s", got)
	}
}

// A server without a descriptor for another connection or process says what to do, and serves again when it has
// one.
func TestTenantsWithFewDescriptors(t *testing.T) {
	t.Parallel()
	f := newTokens(t, "alice", "bob")
	cert, key := certificate(t, t.TempDir(), 1, time.Now().Add(time.Hour))
	s := prepareTenants(t, true, f, "-tls-cert", cert, "-tls-key", key)
	s.begin()
	// Over HTTP/2 a call takes no other descriptor than that to the process.
	over := func(tenant string) *started {
		c := clientOver(t, s.url(), f.tokens[tenant], &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true})
		m := *s
		m.Client, m.dir = c.Client, filepath.Join(s.dir, tenant)
		m.do("list_jobs")
		return &m
	}
	alice, bob := over("alice"), over("bob")
	bob.killTenant()
	polltest.Until(t, "the end of a process", func() bool { return strings.Contains(s.log.String(), "tenant=bob") })
	call := must.Get(alice.Start("execute_command_async", map[string]any{"command": "touch begun; until [ -e go ]; do sleep 0.1; done", "wait_seconds": 100}))(t)
	polltest.Until(t, "the job to begin", func() bool { _, err := os.Stat(filepath.Join(alice.dir, "begun")); return err == nil })
	var before unix.Rlimit
	must.Do(t, unix.Prlimit(s.cmd.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: 1024}, &before))
	for _, tenant := range []*started{alice, bob} {
		if got := tenant.failing(); !strings.Contains(got, "too many open files") || !strings.Contains(got, "(ulimit -n)") {
			t.Error(got)
		}
	}
	must.Do(t, unix.Prlimit(s.cmd.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1024, Max: 1024}, nil))
	polltest.Check(t, func() error { // an error counts for a second
		_, err := bob.Call(s.ctx(), "list_jobs", nil)
		return err
	})
	alice.write("go", "")
	if r, err := call.Reply(s.ctx()); err != nil || r.Header("Status") != "completed" {
		t.Errorf("the call that was in flight: %v, %s", err, r)
	}
}

// The counts of all tenants are added. None falls when a process ends, which no longer counts.
func TestTenantsInASandboxAreCounted(t *testing.T) {
	t.Parallel()
	f := newTokens(t, "alice", "bob")
	s := prepareTenants(t, true, f, "-metrics", "127.0.0.1:0")
	s.begin()
	counted := func() (n int) {
		t.Helper()
		_, text := get(s.metricsURL(), "").answer(t)
		if m := regexp.MustCompile(`(?m)^async_repl_jobs_ended_total\{status="completed"\} (\d+)$`).FindStringSubmatch(text); m != nil {
			fmt.Sscan(m[1], &n)
		}
		return n
	}
	if _, text := get(s.metricsURL(), "").answer(t); !strings.Contains(text, `async_repl_jobs{status="running"} 0`) {
		t.Errorf("before the first job:\n%s", text)
	}
	alice, bob := s.as(t, f, "alice", client.Newer), s.as(t, f, "bob", client.Older)
	for range 3 {
		alice.do("execute_command_async", "command", "true", "wait_seconds", 60)
	}
	bob.do("execute_command_async", "command", "true", "wait_seconds", 60)
	polltest.Until(t, "four jobs", func() bool { return counted() == 4 })
	alice.killTenant()
	if got := counted(); got != 4 {
		t.Errorf("after the end of a process %d jobs have ended, want 4", got)
	}
	alice.do("execute_command_async", "command", "true", "wait_seconds", 60)
	polltest.Until(t, "five jobs", func() bool { return counted() == 5 })
}

// The server is healthy while a tenant can start a job.
func TestHealthOfTenantsInASandbox(t *testing.T) {
	t.Parallel()
	_, alice, bob := startTenants(t, true)
	health := strings.TrimSuffix(alice.url(), "/mcp") + "/healthz"
	becomes := func(want int) {
		t.Helper()
		polltest.Check(t, func() error { // the answer before counts for a second
			if status, text := get(health, "").answer(t); status != want {
				return fmt.Errorf("%d %s", status, text)
			}
			return nil
		})
	}
	signal := func(sig syscall.Signal, tenants ...*started) {
		for _, tenant := range tenants {
			must.Do(t, syscall.Kill(tenant.inner(), sig))
		}
	}
	becomes(http.StatusOK)
	signal(syscall.SIGSTOP, alice)
	becomes(http.StatusOK)
	signal(syscall.SIGSTOP, bob)
	becomes(http.StatusServiceUnavailable)
	signal(syscall.SIGCONT, alice, bob)
	becomes(http.StatusOK)
}

// Long files come and go as they are.
func TestLongFilesOfTenants(t *testing.T) {
	if testing.Short() {
		t.Skip("sends 200 MB")
	}
	t.Parallel()
	f := newTokens(t, "alice", "bob")
	s := prepareTenants(t, true, f)
	s.begin()
	url := filesOf(s.url())
	const size = 100 << 20
	content := func() io.Reader { return io.LimitReader(rand.NewChaCha8([32]byte{1}), size) }
	sum := func(r io.Reader) string {
		h := sha256.New()
		n := must.Get(io.Copy(h, r))(t)
		return fmt.Sprintf("%d %x", n, h.Sum(nil))
	}
	want := sum(content())
	up := put(url+"large", f.tokens["alice"], "")
	up.body = content()
	if status, body := up.answer(t); status != http.StatusCreated {
		t.Fatal(status, body)
	}
	res := must.Get(get(url+"large", f.tokens["alice"]).send(t))(t)
	defer res.Body.Close()
	if got := sum(res.Body); res.StatusCode != http.StatusOK || got != want {
		t.Errorf("%d: got %s, want %s", res.StatusCode, got, want)
	}
	if got := sum(must.Get(os.Open(filepath.Join(s.dir, "alice", "large")))(t)); got != want {
		t.Errorf("the file: got %s, want %s", got, want)
	}
	if status, body := get(url+"large", f.tokens["bob"]).answer(t); status != http.StatusNotFound {
		t.Errorf("for another tenant: %d %.100s", status, body)
	}
}

// The commands of a person reach the jobs of each tenant, and name the workspaces.
func TestCommandsReachTenantsInASandbox(t *testing.T) {
	t.Parallel()
	_, alice, bob := startTenants(t, true)
	tenants := map[*started]string{}
	for _, tenant := range []*started{alice, bob} {
		tenants[tenant] = tenant.do("execute_command_async", "command", "printf 'Name? '; read x; echo hello $x; exit 5", "wait_seconds", 60).Header("Job ID")
	}
	out, code := alice.person("ps")
	for tenant, job := range tenants {
		if !strings.Contains(out, tenant.dir) || !strings.Contains(out, job[:14]+"  waiting_input") || code != 0 {
			t.Errorf("ps: exit %d\n%s", code, out)
		}
	}
	for tenant, job := range tenants {
		if out, code := tenant.person("wait", job); code != 123 {
			t.Errorf("wait: %q, exit %d", out, code)
		}
		if tenant == bob {
			seat := bob.attach(job)
			seat.shows("Ctrl-] detaches.")
			seat.types("Ada\r")
			seat.ends()
		} else if out, code := tenant.person("send", job, "Ada"); out != "delivered\n" || code != 0 {
			t.Errorf("send: %q, exit %d", out, code)
		}
		if out, code := tenant.person("wait", job); out != job+" failed (exit 5)\n" || code != 5 {
			t.Errorf("wait: %q, exit %d", out, code)
		}
		if out, code := tenant.person("logs", job); out != "Name? Ada\nhello Ada\n" || code != 0 {
			t.Errorf("logs: %q, exit %d", out, code)
		}
	}
}
