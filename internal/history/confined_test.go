//go:build unix

package history

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/sandbox"
	"asyncrepl/internal/test/must"
	"asyncrepl/jobs"
)

// confinedTo returns the configuration of a server of the same workspace that is confined.
func confinedTo(c Config) Config {
	name := filepath.Base(Open(c).dir())
	c.State = sandbox.StateOf(c.State, name[strings.LastIndex(name, "-")+1:])
	return c
}

// A person sees the jobs of servers that were confined, among the others of the workspace and by id from everywhere.
// An agent whose server is not confined sees none of them, and one whose server is sees only those.
func TestJobsOfConfinedServers(t *testing.T) {
	c := newConfig(t)
	inside := confinedTo(c)
	elsewhere := c
	elsewhere.Workspace = t.TempDir()
	elsewhere = confinedTo(elsewhere)
	var ids []string
	for i, c := range []Config{c, inside, c, inside, elsewhere} {
		_, made := makeRun(t, c, string(rune('1'+i)))
		ids = append(ids, made...)
	}
	for name, tc := range map[string]struct {
		config Config
		list   []string
		found  []bool
	}{
		"an agent":           {c, []string{"3", "1"}, []bool{true, false, true, false, false}},
		"an agent, confined": {inside, []string{"4", "2"}, []bool{false, true, false, true, false}},
		"a person":           {Config{Everywhere: true}, []string{"4", "3", "2", "1"}, []bool{true, true, true, true, true}},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.config.Everywhere {
				tc.config = c
				tc.config.Everywhere = true
			}
			e := newEngine(tc.config)
			defer e.end()
			if got := e.titles(jobs.Filter{}); !slices.Equal(got, tc.list) {
				t.Errorf("listed %q, want %q", got, tc.list)
			}
			for i, id := range ids {
				j, err := e.Find(id[:20])
				if (err == nil) != tc.found[i] {
					t.Errorf("job %d: %v", i+1, err)
				} else if err == nil && len(j.Log().Read(0, 100).Spans) == 0 && j.Record().Output.End > 0 {
					t.Errorf("job %d has no output", i+1)
				}
			}
		})
	}
}

// Two thousand jobs that a confined one made up hide none of other servers.
func TestConfinedJobsHideNoOthers(t *testing.T) {
	c := newConfig(t)
	c.Keep = 10
	makeRun(t, c, "1", "2")
	many := make([]string, 20)
	for i := range many {
		many[i] = "x"
	}
	makeRun(t, confinedTo(c), many...)
	c.Everywhere = true
	e := newEngine(c)
	defer e.end()
	got := e.titles(jobs.Filter{})
	if want := append(slices.Repeat([]string{"x"}, 10), "2", "1"); !slices.Equal(got, want) {
		t.Errorf("listed %q", got)
	}
}

// A sweep removes the directories of sandboxes that no server uses, when they are as old as records, or take more
// than past runs may.
func TestSweepOfSandboxes(t *testing.T) {
	c := newConfig(t)
	inside := confinedTo(c)
	run, _ := makeRun(t, inside, "1")
	own, _ := makeRun(t, c, "2")
	part := filepath.Dir(inside.State)
	used := func(ago time.Duration) {
		at := time.Now().Add(-ago)
		must.Do(t, os.MkdirAll(filepath.Join(part, "tmp"), 0o700))
		must.Do(t, os.Chtimes(filepath.Join(part, "tmp"), at, at))
	}
	e := newEngine(c)
	defer e.end()
	used(time.Hour)
	must.Do(t, e.sweep())
	if !exists(run) {
		t.Fatal("the records of a confined server are removed")
	}
	e.config.MaxBytes = 100 << 10 // of which its own past runs take more than a half
	must.Do(t, e.sweep())
	if exists(part) || !exists(own) {
		t.Error("the directory of a sandbox takes more than past runs may, and is left")
	}
	makeRun(t, inside, "1")
	used(8 * 24 * time.Hour)
	e.config.MaxBytes = 0
	must.Do(t, e.sweep())
	if exists(part) || !exists(own) {
		t.Error("the directory of a sandbox that was used long ago is left")
	}
}
