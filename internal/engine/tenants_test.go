//go:build unix

package engine_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/test/must"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// tenants returns the tenants of a server without a named Python.
func tenants(t testing.TB, c setup) *engine.Tenants {
	t.Helper()
	c.Python = ""
	all := engine.NewTenants(c.Config)
	t.Cleanup(all.Close)
	return all
}

// tenant returns the engine of a tenant, and the scope of its clients, which bring the environment of
// this process.
func tenant(t testing.TB, all *engine.Tenants, name, dir string) (*bench, engine.Scope) {
	t.Helper()
	e := must.Get(all.Tenant(name, dir))(t)
	b := &bench{e, t, os.Environ()}
	return b, b.Scope()
}

// A tenant has a workspace that only its user can open, and a state directory. The environment that
// the server was started in is not the tenant's.
func TestATenantHasItsOwn(t *testing.T) {
	t.Parallel()
	c := config(t)
	all := tenants(t, c)
	dir := filepath.Join(t.TempDir(), "work", "alice")
	b, _ := tenant(t, all, "alice", dir)
	sc := b.Engine.Scope(engine.Client{Env: append(c.Env, "VIRTUAL_ENV="+t.TempDir(), "CONDA_PREFIX="+t.TempDir())})
	if sc.Workspace != dir {
		t.Errorf("the workspace is %s, want %s", sc.Workspace, dir)
	}
	if st, err := os.Stat(dir); err != nil || st.Mode() != os.ModeDir|0o700 {
		t.Errorf("the workspace has mode %v, %v", st.Mode(), err)
	}
	if i := slices.IndexFunc(sc.Env, func(kv string) bool {
		return strings.HasPrefix(kv, "VIRTUAL_ENV=") || strings.HasPrefix(kv, "CONDA_PREFIX=")
	}); i >= 0 {
		t.Errorf("the environment has %s", sc.Env[i])
	}
	st := b.Status(sc)
	if want := filepath.Join(c.StateDir, "tenants", "alice"); st.StateDir != want {
		t.Errorf("the state directory is %s, want %s", st.StateDir, want)
	}
	if want := filepath.Join(dir, ".venv"); !strings.HasPrefix(st.Python, want) {
		t.Errorf("Python is %s, want one in %s", st.Python, want)
	}
	if again, _ := tenant(t, all, "alice", dir); again.Engine != b.Engine {
		t.Error("the tenant has a second engine")
	}
	j := b.shell(sc, engine.Command{Line: "pwd"})
	if record := jobstest.End(t, j); record.Status != jobs.Completed || jobstest.Output(j) != dir+"\n" {
		t.Errorf("%s, %q", record.Receipt.Text(), jobstest.Output(j))
	}
}

// The tenant without a directory has the workspace and environment of the server.
func TestATenantInTheServersWorkspace(t *testing.T) {
	t.Parallel()
	c := config(t)
	all := engine.NewTenants(c.Config)
	t.Cleanup(all.Close)
	b, sc := tenant(t, all, "default", "")
	if st := b.Status(sc); sc.Workspace != c.Workspace || st.StateDir != c.StateDir || !strings.HasPrefix(st.Python, c.Python) {
		t.Errorf("works in %s, state in %s, Python %s", sc.Workspace, st.StateDir, st.Python)
	}
}

// What a tenant can't have is refused with a sentence that says why.
func TestTenantsThatCannotBe(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(file, nil, 0o600))
	work := t.TempDir()
	all := tenants(t, config(t))
	c := config(t)
	python := engine.NewTenants(c.Config)
	defer python.Close()
	b, sc := tenant(t, python, "alice", t.TempDir()) // the only one can have the Python that a setting names
	if got := b.Status(sc).Python; !strings.HasPrefix(got, c.Python+" ") {
		t.Errorf("the Python of the only tenant is %s", got)
	}
	tenant(t, all, "alice", work)
	closed := tenants(t, config(t))
	closed.Close()
	for name, tt := range map[string]struct {
		all       *engine.Tenants
		dir, want string
	}{
		"a file in the way":  {all, file, "making the workspace of tenant bob: mkdir " + file},
		"a relative path":    {all, "here", "not an absolute path"},
		"a Python for all":   {python, work, "can't be used with several tenants"},
		"after the shutdown": {closed, work, "shutting down"},
	} {
		if _, err := tt.all.Tenant("bob", tt.dir); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
	if _, err := all.Tenant("alice", t.TempDir()); err == nil || !strings.Contains(err.Error(), "tenant alice works in "+work) {
		t.Errorf("another workspace: %v", err)
	}
}

// The totals are of all tenants together.
func TestTotalsOfTenants(t *testing.T) {
	t.Parallel()
	all := tenants(t, config(t))
	for _, name := range []string{"alice", "bob"} {
		b, sc := tenant(t, all, name, t.TempDir())
		jobstest.End(t, b.shell(sc, engine.Command{Line: "printf 12345"}))
		jobstest.End(t, b.shell(sc, engine.Command{Line: "exit 1"}))
		jobstest.Start(t, b.Jobs(), jobs.Spec{}, waits{})
		b.create(sc, engine.SessionSpec{Name: "lab"})
	}
	want := engine.Totals{Sessions: 2, Totals: jobs.Totals{
		Now: map[jobs.Status]int{jobs.Queued: 2, jobs.Running: 0, jobs.WaitingInput: 0}, Ended: map[jobs.Status]int64{jobs.Completed: 2, jobs.Failed: 2}, Output: 10,
	}}
	if d := cmp.Diff(want, all.Totals()); d != "" {
		t.Error(d)
	}
}

// While no tenant can start a job, the server says why.
func TestReady(t *testing.T) {
	t.Parallel()
	c := config(t)
	c.MaxJobs = 1
	none, full, gone := tenants(t, c), tenants(t, c), tenants(t, c)
	if err := none.Ready(); err != nil {
		t.Errorf("before the first tenant: %v", err)
	}
	b, sc := tenant(t, full, "alice", t.TempDir())
	for range 1000 {
		jobstest.Start(t, b.Jobs(), jobs.Spec{}, waits{})
	}
	if err := full.Ready(); err == nil || err.Error() != "1000 jobs are queued, the most allowed" {
		t.Errorf("with as many queued jobs as are allowed: %v", err)
	}
	_, sc = tenant(t, gone, "alice", filepath.Join(t.TempDir(), "alice"))
	must.Do(t, os.Remove(sc.Workspace))
	if err := gone.Ready(); err == nil || !strings.Contains(err.Error(), sc.Workspace) {
		t.Errorf("without the workspace: %v", err)
	}
	all := tenants(t, c)
	tenant(t, all, "alice", t.TempDir())
	if err := all.Ready(); err != nil {
		t.Errorf("with room for jobs: %v", err)
	}
	closed := tenants(t, c)
	closed.Close()
	if err := closed.Ready(); err == nil {
		t.Error("after the end")
	}
}

// waits is a runner that never begins.
type waits struct{}

func (waits) Run(ctx context.Context, _ *jobs.Port) jobs.Outcome {
	<-ctx.Done()
	return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.NotRun, Stop: context.Cause(ctx).(*jobs.Stop)}}
}
