//go:build unix

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/process"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
	"asyncrepl/pyrepl"
)

// fakes make sessions without Python.
type fakes struct {
	scan func(name string) // during each scan of a session's processes
	exit func()            // while the idle sessions of an engine exit
}

func (f *fakes) New(name string, _ pyrepl.Config) engine.Python {
	return &fake{fakes: f, name: name, vars: make(map[string]bool)}
}

func (f *fakes) LetExit([]engine.Python) (wait func() []string) {
	if f.exit != nil {
		f.exit()
	}
	return func() []string { return nil }
}

// A fake is a session whose code is the name of a variable that it sets.
type fake struct {
	engine.Session // nil: what no test uses
	*fakes
	name string

	mu   sync.Mutex
	vars map[string]bool
	jobs int
	used time.Time
	gone bool
}

func (f *fake) Name() string                                         { return f.name }
func (f *fake) Live() bool                                           { return f.State().Variables > 0 }
func (f *fake) Lost() *engine.Loss                                   { return nil }
func (f *fake) History() engine.History                              { return engine.History{} }
func (f *fake) SetCheckpoints(*pyrepl.Checkpoints)                   {}
func (f *fake) Restorable(string) string                             { return "" }
func (f *fake) SetNote(string)                                       {}
func (f *fake) Hold(run jobs.Runner) jobs.Runner                     { return run }
func (f *fake) Replay(r pyrepl.Replay) jobs.Runner                   { return f.Exec(r.Work.Code) }
func (f *fake) Imported(context.Context, []string) ([]string, error) { return nil, nil }
func (f *fake) Stopped() bool                                        { return false }
func (f *fake) Close()                                               { f.DeleteIdle("closed") }

func (f *fake) Usage() process.Usage {
	if f.scan != nil {
		f.scan(f.name)
	}
	return process.Usage{Processes: 1}
}

func (f *fake) State() pyrepl.State {
	f.mu.Lock()
	defer f.mu.Unlock()
	return pyrepl.State{Variables: len(f.vars), Jobs: f.jobs, Taken: f.jobs, Used: f.used}
}

func (f *fake) Exec(code string) jobs.Runner {
	return runs(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.vars[code], f.jobs, f.used = true, f.jobs+1, time.Now()
	})
}

func (f *fake) Variables(context.Context, string) (v engine.Variables, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name := range f.vars {
		v.Vars = append(v.Vars, engine.Variable{Name: name})
	}
	return v, nil
}

func (f *fake) Branch(_ context.Context, name string, cfg pyrepl.Config) (engine.Python, engine.Shared, error) {
	b := f.New(name, cfg).(*fake)
	f.mu.Lock()
	defer f.mu.Unlock()
	for v := range f.vars {
		b.vars[v] = true
	}
	return b, nil, nil
}

func (f *fake) BranchAfter(ctx context.Context, _, name string, cfg pyrepl.Config) (engine.Python, engine.Shared, error) {
	return f.Branch(ctx, name, cfg)
}

func (f *fake) Delete(jobs.By, string) (func(context.Context) (engine.End, error), error) {
	f.DeleteIdle("deleted")
	return func(context.Context) (engine.End, error) { return engine.End{Had: true}, nil }, nil
}

func (f *fake) DeleteIdle(how string) (*engine.Loss, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gone = true
	return &engine.Loss{Session: f.name, How: how}, true
}

// runs is a runner that calls itself.
type runs func()

func (r runs) Run(context.Context, *jobs.Port) jobs.Outcome {
	r()
	return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Returned}}
}

// fakeConfig returns the setup of an engine whose sessions are fakes.
func fakeConfig(t *testing.T, f *fakes) setup {
	t.Helper()
	c := config(t)
	c.Pythons = f
	return c
}

// closed waits until a channel is closed.
func closed(t *testing.T, what string, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(polltest.Patience):
		t.Fatal("waited without success for " + what)
	}
}

// The engine knows a session by its interface only: sessions without Python are made, used,
// branched, counted, deleted and ended when they are idle.
func TestEngineKnowsASessionByItsInterface(t *testing.T) {
	t.Parallel()
	c := fakeConfig(t, new(fakes))
	c.MaxSessions, c.SessionTTL = 2, time.Hour
	b := newBench(t, c)
	sc := b.Scope()
	jobstest.End(t, b.python(sc, "lab", "x"))
	must.Get2(b.Branch(t.Context(), "lab", "twig"))(t)
	twig := must.Get(b.Session("twig"))(t)
	if v, err := twig.Variables(t.Context(), ""); err != nil || len(v.Vars) != 1 || v.Vars[0].Name != "x" {
		t.Errorf("the branch has %+v, %v", v, err)
	}
	var exists *engine.SessionExistsError
	if _, _, err := b.Create(t.Context(), sc, engine.SessionSpec{Name: "lab"}); !errors.As(err, &exists) || exists.Session.Jobs != 1 {
		t.Errorf("made again: %v, %+v", err, exists)
	}
	var many *engine.TooManySessionsError
	if _, _, err := b.Open(sc, "third"); !errors.As(err, &many) || many.Idle.Name == "" || many.Idle.Processes != 1 {
		t.Errorf("a third: %v, %+v", err, many)
	}
	wait, _ := must.Get2(b.Delete("twig", jobs.Agent, "test"))(t)
	if end, err := wait(t.Context()); !end.Had || err != nil {
		t.Errorf("deleted: %+v, %v", end, err)
	}
	if list, _ := b.Sessions(); len(list) != 1 || list[0].Name != "lab" || list[0].Variables != 1 {
		t.Errorf("the sessions are %+v", list)
	}
}

// A scan of the processes of one session delays no call of another: neither the scan for a refusal
// or a new branch, nor that of a session whose time is up.
func TestScanOfASessionDelaysNoOther(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(b *bench, sc engine.Scope){
		"exists": func(b *bench, sc engine.Scope) { b.Create(b.t.Context(), sc, engine.SessionSpec{Name: "slow"}) },
		"branch": func(b *bench, sc engine.Scope) { b.Branch(b.t.Context(), "other", "slow") },
		"full": func(b *bench, sc engine.Scope) {
			for _, name := range []string{"slow", "slow2", "slow3", "slow4"} {
				jobstest.End(b.t, b.python(sc, name, "x"))
			}
			jobstest.End(b.t, b.python(sc, "other", "x")) // so that it is not idle longest
			b.Open(sc, "one more")
		},
		"expired": func(b *bench, sc engine.Scope) { jobstest.End(b.t, b.python(sc, "slow", "x")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scanning, release := make(chan struct{}), make(chan struct{})
			var once sync.Once
			c := fakeConfig(t, &fakes{scan: func(name string) {
				if name != "other" {
					once.Do(func() { close(scanning) })
					<-release
				}
			}})
			c.MaxSessions = 5
			if name == "expired" {
				c.SessionTTL = time.Millisecond
			} else if name == "exists" {
				c.SessionTTL = time.Hour
			}
			b := newBench(t, c)
			sc := b.Scope()
			jobstest.End(t, b.python(sc, "other", "x"))
			if name == "exists" {
				jobstest.End(t, b.python(sc, "slow", "x"))
			}
			done := make(chan struct{})
			go func() { // owned by the test, which waits for it
				defer close(done)
				call(b, sc)
			}()
			closed(t, "the scan", scanning)
			jobstest.End(t, b.python(sc, "other", "y"))
			if _, err := b.Session("nothing"); err == nil {
				t.Error("there is a session that was never made")
			}
			close(release)
			closed(t, "the call", done)
		})
	}
}

// A tenant that left and whose programs take long to end delays no other. It can come back when they
// have ended.
func TestEndOfATenantDelaysNoOther(t *testing.T) {
	t.Parallel()
	ending, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	c := fakeConfig(t, &fakes{exit: func() { once.Do(func() { close(ending); <-release }) }})
	c.SessionTTL = time.Millisecond
	all := tenants(t, c)
	dirs := []string{t.TempDir(), t.TempDir()}
	for i, name := range []string{"leaves", "stays"} {
		must.Get(all.Tenant(name, dirs[i]))(t)
	}
	all.Keep([]string{"stays"})
	closed(t, "the end of the tenant", ending)
	if _, err := all.Tenant("stays", dirs[1]); err != nil {
		t.Errorf("the other tenant: %v", err)
	}
	if _, err := all.Tenant("leaves", dirs[0]); err != engine.ErrEnding {
		t.Errorf("the tenant comes back too early: %v", err)
	}
	close(release)
	polltest.Check(t, func() error {
		_, err := all.Tenant("leaves", dirs[0])
		return err
	})
}

// The engines of all tenants end side by side: each waits in its end until all others do.
func TestTenantsEndSideBySide(t *testing.T) {
	t.Parallel()
	const many = 20
	ending, all := make(chan struct{}), make(chan struct{})
	ts := tenants(t, fakeConfig(t, &fakes{exit: func() {
		select {
		case ending <- struct{}{}:
		case <-all:
		}
		<-all
	}}))
	for i := range many {
		must.Get(ts.Tenant(fmt.Sprint("t", i), t.TempDir()))(t)
	}
	done := make(chan struct{})
	go func() { // owned by the test, which waits for it
		defer close(done)
		ts.Close()
	}()
	late := time.After(polltest.Patience)
	for i := range many {
		select {
		case <-ending:
		case <-late:
			close(all)
			t.Fatalf("%d of %d engines end at once", i, many)
		}
	}
	close(all)
	closed(t, "the end of all tenants", done)
}
