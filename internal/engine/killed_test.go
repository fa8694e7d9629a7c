package engine_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"asyncrepl/internal/test/must"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// A server that is killed loses the variables that it had then, and not those of sessions that were
// deleted, restarted or ended by a goodbye.
func TestLostIsWhatAKilledServerHad(t *testing.T) {
	t.Parallel()
	c := config(t)
	b := newBench(t, c)
	sc := b.Scope()
	for session, code := range map[string]string{"lab": "x = 1", "deleted": "a = 1", "restarted": "b = 1"} {
		jobstest.End(t, b.python(sc, session, code))
	}
	must.Get2(b.Delete("deleted", jobs.Agent, ""))(t)
	must.Get(must.Get(b.Session("restarted"))(t).Restart(jobs.Agent, "restart"))(t)
	jobstest.End(t, b.python(sc, "restarted", "after = 1"))
	now := image(t, c)
	b.Keep("lab")
	b.EndUnkept(jobs.Shutdown)
	afterGoodbye := image(t, c)
	b.Close()
	for _, test := range []struct {
		image setup
		want  string
	}{
		{now, "an earlier server was killed; variables of session lab: x; variables of session restarted: after"},
		{afterGoodbye, "an earlier server was killed; variables of session lab: x"},
	} {
		next := newBench(t, test.image)
		if got := next.Killed(); !slices.Equal(got, []string{test.want}) {
			t.Errorf("got %q, want %q", got, test.want)
		}
		next.KilledSaid()
		if got := next.Killed(); got != nil {
			t.Errorf("it is said again: %q", got)
		}
	}
}

// image returns the configuration of an engine that finds what a kill of the present one would leave.
func image(t *testing.T, c setup) setup {
	t.Helper()
	state := filepath.Join(t.TempDir(), "state")
	must.Do(t, os.CopyFS(state, os.DirFS(c.StateDir)))
	must.Do(t, filepath.WalkDir(state, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = os.Chmod(path, 0o700)
		}
		return err
	}))
	c.StateDir = state
	return c
}
