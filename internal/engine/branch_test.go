//go:build linux

package engine_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/reply/overview"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// A branch has the variables and the settings of its parent, and counts as a session.
func TestBranchOfASession(t *testing.T) {
	t.Parallel()
	c := config(t)
	c.MaxSessions = 3
	b := newBench(t, c)
	sc := b.Scope()
	dir := t.TempDir()
	b.create(sc, engine.SessionSpec{Name: "base", Dir: dir, Env: map[string]string{"MINE": "base's"}})
	if _, _, err := b.Branch(t.Context(), "base", "twig"); err == nil {
		t.Error("a session without Python was branched")
	}
	b.says(sc, "base", "x = [1]")
	st, _ := must.Get2(b.Branch(t.Context(), "base", "twig"))(t)
	if st.Name != "twig" || st.Parent != "base" || st.PID == 0 || st.Dir != dir || st.Variables != 1 {
		t.Errorf("the branch is %+v", st)
	}
	b.says(sc, "twig", "x.append('twig')")
	if got := b.says(sc, "base", "print(x)"); got != "[1]\n" {
		t.Errorf("the parent has %q", got)
	}
	restart(t, b, sc, "twig")
	const code = "import os; print('x' in dir(), os.getcwd(), os.environ['MINE'])"
	if got, want := b.says(sc, "twig", code), "False "+dir+" base's\n"; got != want {
		t.Errorf("the next Python of the branch prints %q, want %q", got, want)
	}
	if _, _, err := b.Branch(t.Context(), "none", "mine"); !isNoSession(err) {
		t.Errorf("branch of no session: %v", err)
	}
	if _, _, err := b.Branch(t.Context(), "base", "twig"); !isExists(err) {
		t.Errorf("branch of a name that exists: %v", err)
	}
	if _, _, err := b.Branch(t.Context(), "base", "third"); err != nil {
		t.Error(err)
	}
	if _, _, err := b.Branch(t.Context(), "base", "fourth"); !isTooMany(err) {
		t.Errorf("branch beyond the limit: %v", err)
	}
}

func isNoSession(err error) bool { _, ok := errors.AsType[*engine.NoSessionError](err); return ok }
func isExists(err error) bool    { _, ok := errors.AsType[*engine.SessionExistsError](err); return ok }
func isTooMany(err error) bool {
	_, ok := errors.AsType[*engine.TooManySessionsError](err)
	return ok
}

// A session that is deleted while a branch waits for its turn has none, and a name that is taken
// meanwhile is refused.
func TestBranchThatComesTooLate(t *testing.T) {
	inFull(t)
	t.Parallel()
	b := newBench(t, config(t))
	sc := b.Scope()
	b.says(sc, "base", "x = 1")
	j := b.python(sc, "base", "input()")
	jobstest.Asks(t, j)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := b.Branch(ctx, "base", "twig"); err == nil || err.Error() != "session base is busy with job "+j.ID()+", which waits for input" {
		t.Errorf("branch of a busy session: %v", err)
	}
	branched := make(chan error, 1)
	go func() {
		_, _, err := b.Branch(t.Context(), "base", "twig")
		branched <- err
	}()
	b.queues(sc, "base")
	b.create(sc, engine.SessionSpec{Name: "twig"})
	jobstest.Send(t, j, jobs.Input{Text: "\n"})
	if err := <-branched; !isExists(err) {
		t.Errorf("branch with a name that was taken: %v", err)
	}
	if got := b.says(sc, "twig", "print('x' in dir())"); got != "False\n" {
		t.Errorf("the session that took the name prints %q", got)
	}
}

// A branch that waits is refused if the variables that it waits for are lost.
func TestBranchThatWaitsForWhatIsLost(t *testing.T) {
	t.Parallel()
	b := newBench(t, config(t))
	sc := b.Scope()
	branched := make(chan error, 1)
	lose := func(name string, how func(j *jobs.Job)) error {
		b.says(sc, name, "x = 1")
		j := b.python(sc, name, "input(); import os; os._exit(1)")
		jobstest.Asks(t, j)
		go func() {
			_, _, err := b.Branch(t.Context(), name, "twig")
			branched <- err
		}()
		b.queues(sc, name)
		how(j)
		jobstest.End(t, j)
		return <-branched
	}
	want := "session base was deleted while its branch waited for it, and its variables are lost"
	deleted := new(engine.DeletedError)
	if err := lose("base", func(*jobs.Job) {
		if _, _, err := b.Delete("base", jobs.Agent, "test"); err != nil {
			t.Error(err)
		}
	}); !errors.As(err, &deleted) || err.Error() != want {
		t.Errorf("branch of a session that was deleted: %v", err)
	}
	var id string
	err := lose("dead", func(j *jobs.Job) { id = j.ID(); jobstest.Send(t, j, jobs.Input{Text: "\n"}) })
	want = "session dead was not branched: variables were lost in job " + id + "; run a job there that makes what the branch needs, then branch it"
	if err == nil || err.Error() != want {
		t.Errorf("branch of a session that has died: %v", err)
	}
}

// queues waits until something waits for its turn in a session.
func (b *bench) queues(sc engine.Scope, name string) {
	b.t.Helper()
	polltest.Until(b.t, "the queue of session "+name, func() bool {
		list, _ := b.Sessions()
		return slices.ContainsFunc(list, func(s overview.Session) bool { return s.Name == name && s.Queued > 0 })
	})
}
