//go:build linux

package carry

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
)

// mounted returns a carrier whose home is a file system of its own, with options of mount. It skips the test if
// the system lets no program make one.
func mounted(t testing.TB, options string) (argv []string, home, temp string) {
	t.Helper()
	out, err := exec.Command(needtest.Program(t, "unshare"), "-rm", "true").CombinedOutput()
	needtest.Right(t, "mount a file system", err, out)
	home, temp = t.TempDir(), t.TempDir()
	return []string{"env", "-i", "HOME=" + home, "TMPDIR=" + temp, "unshare", "-rm",
		"sh", "-c", `mount -t tmpfs -o ` + options + ` tmpfs "$HOME" && exec "$0"`}, home, temp
}

// If the home takes no program, the next directory does: that of XDG_CACHE_HOME comes first, then ~/.cache, then
// one in the directory for temporary files.
func TestNextDirectory(t *testing.T) {
	t.Parallel()
	for _, options := range []string{"ro", "noexec", "size=100k", "size=10m,nr_inodes=2"} {
		t.Run(options, func(t *testing.T) {
			t.Parallel()
			argv, home, temp := mounted(t, options)
			s := Spec{Argv: argv, Program: large(t, 1)}
			want := filepath.Join(temp, "async-repl-0/bin") // unshare makes us root
			for range 2 {
				p, g := opened(t, s)
				checkEcho(t, p, 1000)
				if g.Boot != want {
					t.Errorf("the program is in %s, want %s", g.Boot, want)
				}
			}
			if found := names(t, want); len(found) != 1 {
				t.Errorf("there are %q", found)
			}
			st := must.Get(os.Stat(filepath.Dir(want)))(t)
			if st.Mode().Perm() != 0o700 {
				t.Errorf("the mode of its directory is %v", st.Mode())
			}

			cache := t.TempDir()
			s.Argv = append([]string{"env", "-i", "XDG_CACHE_HOME=" + cache}, argv[2:]...)
			s.Program = writeProgram(t, echoes)
			if _, g := opened(t, s); g.Boot != cache+"/async-repl/bin" {
				t.Errorf("with XDG_CACHE_HOME the program is in %s", g.Boot)
			}
			s.Argv = append([]string{"env", "-i", "XDG_CACHE_HOME=" + home, "HOME=" + home, "TMPDIR=" + t.TempDir()}, argv[4:]...)
			s.Program = large(t, 1)
			s.Setup = "HOME=" + t.TempDir()
			if _, g := opened(t, s); !strings.HasSuffix(g.Boot, "/.cache/async-repl/bin") {
				t.Errorf("if XDG_CACHE_HOME takes no program, it is in %s", g.Boot)
			}
		})
	}
}

// If no directory takes the program, the error says why for each.
func TestNoDirectory(t *testing.T) {
	t.Parallel()
	for options, why := range map[string]string{"ro": "Read-only file system", "noexec": "Permission denied", "size=100k": "No space left on device"} {
		t.Run(options, func(t *testing.T) {
			t.Parallel()
			argv, home, _ := mounted(t, options)
			argv[3] = "TMPDIR=" + home
			err := refusedBy(t, t.Context(), Spec{Argv: argv, Program: large(t, 1)})
			for _, dir := range []string{home + "/.cache/async-repl/bin", fmt.Sprintf("%s/async-repl-0/bin", home)} {
				if !strings.Contains(err.Text, dir) {
					t.Errorf("%s is not named: %v", dir, err)
				}
			}
			if err.Step != Carry || strings.Count(err.Text, why) != 2 || !strings.Contains(err.Cure, "free 2 MB") || err.Final {
				t.Errorf("got step %d: %v", err.Step, err)
			}
		})
	}
}

// Of another user's directory nothing is used, and neither is one that others can write to.
func TestForeignDirectory(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	dir := filepath.Join(temp, fmt.Sprintf("async-repl-%d", os.Getuid()))
	s := Spec{Argv: []string{"env", "-i", "HOME=/dev/null", "TMPDIR=" + temp}, Program: writeProgram(t, echoes)}
	p, _ := opened(t, s) // the program is there
	closed(t, p)
	foreign := func(what string) {
		t.Helper()
		if err := refusedBy(t, t.Context(), s); err.Step != Carry || !strings.Contains(err.Text, dir+": not a directory of mode 700 that is yours") {
			t.Errorf("%s: %v", what, err)
		}
	}
	must.Do(t, os.Chmod(dir, 0o770))
	foreign("a directory that a group can write to")
	must.Do(t, os.Chmod(dir, 0o700|os.ModeSetgid)) // as in a directory that gives its group to all in it
	p, _ = opened(t, s)
	closed(t, p)
	must.Do(t, os.Rename(dir, dir+"-away"))
	must.Do(t, os.Symlink(dir+"-away", dir))
	foreign("a link")
	must.Do(t, os.Remove(dir))
	must.Do(t, os.Rename(dir+"-away", dir))
	if os.Getuid() == 0 {
		must.Do(t, os.Chown(dir, 12345, 12345))
		foreign("another user's directory")
	}
}
