package files

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"asyncrepl/internal/test/must"
)

// A workspace that is kept stays the directory that was opened, whatever is put in its place. It works
// again if its directory is put back, or is opened again.
func TestKeptWorkspace(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(t *testing.T, path, other string){
		"a link to another": func(t *testing.T, path, other string) { link(t, other, path) },
		"a relative link":   func(t *testing.T, path, other string) { link(t, filepath.Base(other), path) },
		"another directory": func(t *testing.T, path, other string) { must.Do(t, os.Rename(other, path)) },
		"a new directory":   func(t *testing.T, path, _ string) { must.Do(t, os.Mkdir(path, 0o700)) },
		"nothing":           func(*testing.T, string, string) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := t.TempDir()
			path, other, away := filepath.Join(base, "alice"), filepath.Join(base, "bob"), filepath.Join(base, "away")
			for _, dir := range []string{path, other} {
				must.Do(t, os.Mkdir(dir, 0o700))
				put(t, filepath.Join(dir, "f"), filepath.Base(dir), 0o600)
			}
			var s Store
			keep := func(again bool) {
				t.Helper()
				must.Do(t, s.Keep(path, again))
			}
			keep(false)
			must.Do(t, os.Rename(path, away))
			replace(t, path, other)
			s.Keep(path, false) // each new connection does so
			before := snapshot(t, base)
			d := s.Dir(path)
			_, openErr := d.Open("f")
			_, readErr := d.Read("f", 0, 100)
			_, listErr := d.List(context.Background(), ".", Listing{Depth: 1, Files: true, Chars: 1000})
			_, editErr := d.Edit("f", "b", "x", 9)
			_, rootErr := d.root()
			for what, err := range map[string]error{
				"open": openErr, "read": readErr, "list": listErr, "edit": editErr, "root": rootErr,
				"write": write(d, "new", "x"), "remove": d.Remove("f"), "by its path": write(d, filepath.Join(path, "new"), "x"),
			} {
				if !errors.Is(err, ErrMoved) {
					t.Errorf("%s: %v", what, err)
				}
			}
			if after := snapshot(t, base); after != before {
				t.Errorf("it was\n%s\nand is\n%s", before, after)
			}
			if name == "nothing" {
				if err := s.Keep(path, true); err == nil {
					t.Error("kept, although it is not there")
				}
			} else {
				keep(true)
				if err := write(d, "new", "x"); err != nil {
					t.Errorf("opened again: %v", err)
				}
				must.Do(t, os.Rename(path, filepath.Join(base, "second")))
			}
			must.Do(t, os.Rename(away, path))
			keep(true)
			if part, err := d.Read("f", 0, 100); err != nil || string(part.Data) != "alice" {
				t.Errorf("put back: %v, %v", part, err)
			}
		})
	}
}

// A workspace that is not kept is wherever its path leads, because no other tenant is there.
func TestWorkspaceThatIsNotKept(t *testing.T) {
	t.Parallel()
	d, path := workspace(t)
	must.Do(t, os.Rename(path, path+".old"))
	if err := write(d, "f", "x"); err == nil || !strings.Contains(err.Error(), "opening the workspace: there is no such file or directory") {
		t.Errorf("without it: %v", err)
	}
	must.Do(t, os.Mkdir(path, 0o700))
	if err := write(d, "f", "x"); err != nil {
		t.Error(err)
	}
}
