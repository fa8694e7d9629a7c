//go:build unix

package engine

import (
	"slices"
	"testing"

	"asyncrepl/pkgmgr"
)

// If an install made an environment in place of one that is gone, its receipt names both.
func TestNoteAboutEnvironmentThatIsGone(t *testing.T) {
	notes := new(Engine).installed(t.Context(), nil, pkgmgr.Changes{Dir: "/w/.venv", Gone: "/old"})
	want := "the environment /old is gone, this is /w/.venv: restart the Python of sessions that still run in the old one"
	if !slices.Equal(notes, []string{want}) {
		t.Errorf("notes %q, want %q", notes, want)
	}
}
