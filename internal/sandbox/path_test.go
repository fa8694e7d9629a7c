//go:build linux

package sandbox_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"asyncrepl/internal/sandbox"
	"asyncrepl/internal/test/must"
)

func TestPathsThatASandboxCannotHave(t *testing.T) {
	w := newWorld(t, os.Getuid())
	for _, d := range []string{"a b\nc", "sub/deep", "home2"} {
		must.Do(t, os.MkdirAll(w.path("home/work", d), 0o755))
	}
	w.write(t, w.workspace("file"), "")
	must.Do(t, os.Symlink(w.home(""), w.workspace("sub/out")))
	must.Do(t, os.Symlink(w.home(".ssh"), w.workspace("sub/dangling")))
	must.Do(t, os.Symlink("loop", w.workspace("loop")))
	must.Do(t, os.Symlink(w.workspace(""), w.path("link")))
	must.Do(t, os.Symlink(w.path("other"), w.workspace("other")))
	must.Do(t, os.Symlink("/", w.path("root")))

	set := func(role sandbox.Role, path string) sandbox.Config {
		c := w.config()
		switch role {
		case sandbox.Workspace:
			c.Workspace = path
		case sandbox.Read:
			c.Read = []string{path}
		case sandbox.Write:
			c.Write = []string{path}
		case sandbox.Program:
			c.Programs = []string{path}
		}
		return c
	}
	workspace, read, write, program := sandbox.Workspace, sandbox.Read, sandbox.Write, sandbox.Program
	for _, test := range []struct {
		role sandbox.Role
		path string
		why  string // "" if the path is good
	}{
		{workspace, w.workspace(""), ""},
		{workspace, w.workspace("a b\nc"), ""},
		{workspace, w.path("link"), ""},
		{workspace, w.workspace("sub/../sub/./deep/"), ""},
		{workspace, "work", "is not absolute"},
		{workspace, "", "is not absolute"},
		{workspace, w.path("missing"), "does not exist"},
		{workspace, w.workspace("file"), "is no directory"},
		{workspace, w.workspace("loop"), "can't be used: too many levels of symbolic links"},
		{workspace, w.workspace("file/x"), "can't be used: "},
		{workspace, "/", "is the root of all files"},
		{workspace, w.path("root"), "is the root of all files"},
		{workspace, w.home(""), "holds the home directory " + w.home("")},
		{workspace, w.Dir, "holds the home directory " + w.home("")},
		{workspace, w.path("state"), "and the state directory " + w.path("state") + " hold one another"},
		{workspace, w.path("state/sandbox"), "and the state directory " + w.path("state") + " hold one another"},
		{workspace, "/tmp", "holds the home directory"},
		{workspace, "/var", "is, holds or is in /var/tmp"},
		{workspace, "/dev/shm", "is, holds or is in /dev"},
		{workspace, "/proc/sys/kernel", "is, holds or is in /proc"},
		{workspace, "/usr", "is or holds /usr, which belongs to the system"},
		{workspace, "/bin", "belongs to the system"},
		{workspace, "/etc", "is or holds /etc"},
		{read, w.path("other"), ""},
		{read, w.workspace("file"), ""},
		{read, "/usr/share", ""},
		{read, "/etc", ""},
		{read, w.home(".local"), ""},
		{read, "~/x", "is not absolute"},
		{read, w.path("missing"), "does not exist"},
		{read, "/", "is the root"},
		{read, w.home(""), "holds the home directory"},
		{read, w.path("state"), "hold one another"},
		{read, "/proc/1", "is, holds or is in /proc"},
		{read, w.workspace("sub/out"), "leads by a link from " + w.workspace("") + ", which jobs write, to " + w.home("")},
		{read, w.workspace("sub/out/.local"), "leads by a link from"},
		{read, w.workspace("sub/dangling"), "does not exist"},
		{read, w.workspace("other"), "leads by a link from"},
		{read, w.path("link/other"), "leads by a link from"},
		{write, w.path("other"), ""},
		{write, w.workspace("sub"), ""},
		{write, w.workspace("other"), "leads by a link from"},
		{write, w.home(""), "holds the home directory"},
		{write, "/usr/local/bin", "belongs to the system"},
		{write, w.path("state/sandbox"), "hold one another"},
		{program, w.path("link/sub/out/.local"), "leads by a link from"},
		{program, w.workspace("file"), ""},
	} {
		os.MkdirAll(w.path("state/sandbox"), 0o700)
		box, err := sandbox.New(set(test.role, test.path))
		if err == nil {
			box.Close()
		}
		if test.why == "" {
			if err != nil {
				t.Errorf("%s %q: %v", test.role, test.path, err)
			}
			continue
		}
		var bad *sandbox.PathError
		if !errors.As(err, &bad) || bad.Role != test.role || bad.Path != test.path || !strings.Contains(bad.Why, test.why) {
			t.Errorf("%s %q: got %v, want that it %s", test.role, test.path, err, test.why)
		}
	}
	if left := must.Get(filepath.Glob(w.path("state/sandbox/*/tmp/*")))(t); left != nil {
		t.Errorf("left behind: %q", left)
	}
}

// A job can have swapped a part of the path of the state directory, too.
func TestStateThatAJobHasSwapped(t *testing.T) {
	w := newWorld(t, os.Getuid())
	must.Do(t, os.Symlink(w.home(""), w.workspace("state")))
	c := w.config()
	c.State = w.workspace("state/.ssh")
	var bad *sandbox.PathError
	if box, err := sandbox.New(c); !errors.As(err, &bad) || bad.Role != sandbox.State {
		t.Errorf("got %v, %v", box, err)
	}
}

// A workspace below a directory that jobs write can have been swapped for a link by a job.
func TestWorkspaceThatAJobHasSwapped(t *testing.T) {
	w := newWorld(t, os.Getuid())
	c := w.config()
	must.Do(t, os.MkdirAll(w.path("outside/a"), 0o755))
	c.Write = []string{w.path("outside")}
	c.Workspace = w.path("outside/a")
	must.Get(sandbox.New(c))(t).Close()
	must.Do(t, os.Remove(w.path("outside/a")))
	must.Do(t, os.Symlink(w.path("other"), w.path("outside/a")))
	if box, err := sandbox.New(c); err == nil || !strings.Contains(err.Error(), "leads by a link from "+w.path("outside")) {
		t.Errorf("got %v, %v", box, err)
	}
}
