//go:build unix

package engine

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"asyncrepl/jobs"
)

// Tenants are the tenants of one server. Each tenant has one Engine for itself, with its jobs,
// sessions, environment, output, guard and limits, so no reply to a tenant can show or name
// anything of another tenant. They share only the machine and its user.
type Tenants struct {
	config Config
	ready  readiness

	// Guarded by mu.
	mu      sync.Mutex
	engines map[string]*Engine
	leaving map[string]time.Time     // when each last had a job or a session, see leave.go; the keys are names
	check   *time.Timer              // runs the next check of leaving; nil: no check is due
	past    jobs.Totals              // the totals of the engines that have ended
	ending  map[string]chan struct{} // closed when the engine of a former tenant has ended; the keys are names
	closed  bool
}

// NewTenants returns the tenants of a server that has none yet. The limits in c apply to each
// tenant.
func NewTenants(c Config) *Tenants {
	return &Tenants{config: c, engines: make(map[string]*Engine), ending: make(map[string]chan struct{}), past: noTotals()}
}

func noTotals() jobs.Totals {
	return jobs.Totals{Now: make(map[jobs.Status]int), Ended: make(map[jobs.Status]int64)}
}

// ErrEnding refuses a tenant that comes back while its old engine ends the processes that it left
// running. A new engine would use the same environment beside the old one.
var ErrEnding = errors.New("what this tenant left running is being ended: try again in a few seconds")

// Tenant returns the engine of a tenant, and makes it if there is none. The name must follow the
// rule of session names, because directories are named after it.
//
// While the programs of a tenant that had left are ended, the error is [ErrEnding].
//
// dir is the tenant's workspace, which is made if it does not exist. A tenant with a dir has its
// own environment and state directory, too. If dir is empty, the tenant has the workspace,
// environment and state directory of the Config.
func (t *Tenants) Tenant(name, dir string) (*Engine, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, errShutdown
	}
	if t.ending[name] != nil {
		return nil, ErrEnding
	}
	if e := t.engines[name]; e != nil {
		if e.config.Workspace != cmp.Or(dir, t.config.Workspace) {
			return nil, fmt.Errorf("tenant %s works in %s: restart the server to move it to %s", name, e.config.Workspace, dir)
		}
		return e, nil
	}
	c, err := t.configOf(name, dir)
	if err != nil {
		return nil, err
	}
	if dir != "" {
		if err := makeWorkspace(dir); err != nil {
			return nil, fmt.Errorf("making the workspace of tenant %s: %w", name, err)
		}
	}
	e, err := New(c)
	if err != nil {
		return nil, err
	}
	e.deactivates = dir != ""
	t.engines[name] = e
	return e, nil
}

// configOf returns the Config of a tenant's engine.
func (t *Tenants) configOf(name, dir string) (Config, error) {
	c := t.config
	if dir == "" {
		return c, nil
	}
	if len(t.engines) > 0 {
		if err := c.CheckShared(); err != nil {
			return c, err
		}
	}
	c.Workspace, c.Tenant = dir, name
	if c.StateDir != "" {
		c.StateDir = filepath.Join(c.StateDir, "tenants", name)
	}
	return c, nil
}

// CheckShared refuses settings that name an environment, of which each of several tenants has its own.
func (c *Config) CheckShared() error {
	for _, shared := range []struct{ setting, value string }{{"REPL_PYTHON", c.Python}, {"REPL_VENV_DIR", c.VenvDir}} {
		if shared.value != "" {
			return fmt.Errorf("%s=%q can't be used with several tenants, each of which has an environment of its own: leave it unset", shared.setting, shared.value)
		}
	}
	return nil
}

// makeWorkspace makes a directory that only its user can open, unless it exists.
func makeWorkspace(dir string) error {
	if !filepath.IsAbs(dir) {
		return fmt.Errorf("%s is not an absolute path", dir)
	}
	return os.MkdirAll(dir, 0o700)
}

// deactivated returns a copy of env in which no environment of Python is the active one.
func deactivated(env []string) []string {
	active := []string{"VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYTHONHOME"}
	return slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(active, name)
	})
}

// Totals counts the jobs of all tenants since the start of the server, and their sessions.
type Totals struct {
	jobs.Totals
	Sessions int // the sessions that exist now
}

// Totals returns the totals of all tenants together. Now has an entry for each status of a job that
// has not ended, even if no job has it.
func (t *Tenants) Totals() Totals {
	all := Totals{Totals: noTotals()}
	for _, status := range []jobs.Status{jobs.Queued, jobs.Running, jobs.WaitingInput} {
		all.Now[status] = 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	all.Totals = sum(all.Totals, t.past)
	for _, e := range t.engines {
		all.Totals = sum(all.Totals, e.jobs.Totals())
		all.Sessions += len(e.all())
	}
	return all
}

// all returns the engines of all tenants.
func (t *Tenants) all() []*Engine {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.engines))
}

// Close closes all engines at once, and refuses tenants from then on.
func (t *Tenants) Close() {
	t.mu.Lock()
	t.closed = true
	if t.check != nil {
		t.check.Stop()
	}
	ending := slices.Collect(maps.Values(t.ending))
	t.mu.Unlock()
	var closing sync.WaitGroup
	for _, e := range t.all() {
		closing.Go(e.Close) // joined below; ends when the engine is closed
	}
	closing.Wait()
	for _, ended := range ending {
		<-ended
	}
}
