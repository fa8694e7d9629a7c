package files

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
)

// workspace returns a directory for a test, with a secret beside it.
func workspace(t testing.TB) (d *Dir, path string) {
	t.Helper()
	base := t.TempDir()
	path = filepath.Join(base, "workspace")
	outside := filepath.Join(base, "outside")
	for _, dir := range []string{path, outside, filepath.Join(path, "sub")} {
		must.Do(t, os.Mkdir(dir, 0o755))
	}
	put(t, filepath.Join(outside, "secret"), "secret", 0o644)
	return new(Store).Dir(path), path
}

func put(t testing.TB, path, content string, mode fs.FileMode) {
	t.Helper()
	must.Do(t, os.WriteFile(path, []byte(content), mode))
	must.Do(t, os.Chmod(path, mode))
}

func link(t testing.TB, to, path string) {
	t.Helper()
	must.Do(t, os.Symlink(to, path))
}

func content(t testing.TB, path string) string {
	t.Helper()
	b := must.Get(os.ReadFile(path))(t)
	return string(b)
}

// write writes text to a file of d.
func write(d *Dir, path, text string) error {
	_, err := d.Write(path, Write{Content: strings.NewReader(text), Limit: 1 << 20})
	return err
}

// access are the ways to get at a file.
var access = map[string]func(d *Dir, path string) error{
	"open":  func(d *Dir, path string) error { f, err := d.Open(path); closed(f); return err },
	"read":  func(d *Dir, path string) error { _, err := d.Read(path, 0, 10); return err },
	"write": func(d *Dir, path string) error { return write(d, path, "overwritten") },
	"edit":  func(d *Dir, path string) error { _, err := d.Edit(path, "secret", "edited", 1); return err },
	"list": func(d *Dir, path string) error {
		_, err := d.List(context.Background(), path, Listing{Depth: 1})
		return err
	},
	"remove": func(d *Dir, path string) error { return d.Remove(path) },
}

func closed(f *File) {
	if f != nil {
		f.Close()
	}
}

func TestPathsThatAreRefused(t *testing.T) {
	d, path := workspace(t)
	base := filepath.Dir(path)
	link(t, "../outside", filepath.Join(path, "out"))
	link(t, filepath.Join(base, "outside", "secret"), filepath.Join(path, "absolute"))
	link(t, "sub/../../outside/secret", filepath.Join(path, "winding"))
	link(t, "loop", filepath.Join(path, "loop"))
	put(t, filepath.Join(path, "file"), "secret", 0o644)
	must.Do(t, syscall.Mkfifo(filepath.Join(path, "fifo"), 0o644))
	listener := must.Get(net.Listen("unix", filepath.Join(path, "socket")))(t)
	defer listener.Close()
	all := slices.Collect(maps.Keys(access))
	without := func(ways ...string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(way string) bool { return slices.Contains(ways, way) })
	}
	for name, tt := range map[string]struct {
		path string
		want error
		ways []string
	}{
		"parent":              {"../outside/secret", ErrOutside, all},
		"parent in a way":     {"sub/../../outside/secret", ErrOutside, all},
		"absolute":            {filepath.Join(base, "outside", "secret"), ErrOutside, all},
		"almost":              {path + "x/secret", ErrOutside, all},
		"absolute, but out":   {path + "/../outside/secret", ErrOutside, all},
		"through a link":      {"out/secret", ErrOutside, all},
		"an absolute link":    {"absolute", ErrOutside, without("remove")},
		"a winding link":      {"winding", ErrOutside, without("remove")},
		"a loop of links":     {"loop", ErrName, without("remove")},
		"NUL":                 {"fi\x00le", ErrName, all},
		"empty":               {"", ErrName, all},
		"long":                {strings.Repeat("x", 300), ErrName, all},
		"below a file":        {"file/x", ErrName, without("list")},
		"missing":             {"missing", fs.ErrNotExist, without("write")},
		"no directory":        {"file", ErrNotDirectory, []string{"list"}},
		"directory":           {"sub", ErrNotRegular, without("list")},
		"directory, slash":    {"sub/", ErrNotRegular, without("list")},
		"the workspace":       {".", ErrNotRegular, without("list")},
		"its absolute path":   {path, ErrNotRegular, without("list")},
		"FIFO":                {"fifo", ErrNotRegular, without("list", "remove")},
		"socket":              {"socket", ErrNotRegular, without("list", "remove")},
		"a slash at its end":  {"file/", ErrName, without("list", "write")},
		"a slash of a writer": {"new/", ErrNotRegular, []string{"write"}},
	} {
		for _, way := range tt.ways {
			if err := access[way](d, tt.path); !errors.Is(err, tt.want) {
				t.Errorf("%s: %s of %q: %v, want %v", name, way, tt.path, err, tt.want)
			} else if err != nil && strings.Contains(err.Error(), "openat") {
				t.Errorf("%s: %s names a system call: %v", name, way, err)
			}
		}
	}
	if got := content(t, filepath.Join(base, "outside", "secret")); got != "secret" {
		t.Errorf("the file outside has %q", got)
	}
}

func TestDevicesAreNotOpened(t *testing.T) {
	d, path := workspace(t)
	const null = 1<<8 | 3 // of Linux
	needtest.Right(t, "make a device", syscall.Mknod(filepath.Join(path, "null"), syscall.S_IFCHR|0o666, null), nil)
	for way, try := range access {
		if way == "remove" {
			continue
		}
		if err := try(d, "null"); way != "list" && !errors.Is(err, ErrNotRegular) {
			t.Errorf("%s: %v", way, err)
		}
	}
}

func TestAbsolutePathsInTheWorkspace(t *testing.T) {
	d, path := workspace(t)
	other := filepath.Join(filepath.Dir(path), "link")
	link(t, path, other)
	for name, d := range map[string]*Dir{"as it is": d, "through a link": new(Store).Dir(other)} {
		if err := write(d, path+"//a", "x"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if part, err := d.Read(filepath.Join(path, "a"), 0, 9); err != nil || string(part.Data) != "x" {
			t.Errorf("%s: %v, %v", name, part, err)
		}
	}
}

func TestWriteKeepsTheMode(t *testing.T) {
	d, path := workspace(t)
	file := filepath.Join(path, "file")
	put(t, file, "old", 0o751)
	must.Do(t, write(d, "file", "new"))
	fi, err := os.Stat(file)
	if err != nil || fi.Mode() != 0o751 || content(t, file) != "new" {
		t.Errorf("%v, %v, %q", fi.Mode(), err, content(t, file))
	}
	must.Get(d.Edit("file", "new", "edited", 1))(t)
	if fi, err = os.Stat(file); err != nil || fi.Mode() != 0o751 || content(t, file) != "edited" {
		t.Errorf("%v, %v, %q", fi.Mode(), err, content(t, file))
	}
}

func TestReadOnlyFilesAreKept(t *testing.T) {
	d, path := workspace(t)
	put(t, filepath.Join(path, "file"), "secret", 0o444)
	for _, way := range []string{"write", "edit"} {
		if err := access[way](d, "file"); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "the file is read-only") {
			t.Errorf("%s: %v", way, err)
		}
	}
	if got := content(t, filepath.Join(path, "file")); got != "secret" {
		t.Errorf("the file has %q", got)
	}
}

func TestWriteFollowsLinks(t *testing.T) {
	d, path := workspace(t)
	link(t, "sub/real", filepath.Join(path, "link"))
	link(t, "../other", filepath.Join(path, "sub", "up"))
	link(t, "sub", filepath.Join(path, "dir"))
	for name, real := range map[string]string{"link": "sub/real", "sub/up": "other", "dir/up": "other", "dir/new": "sub/new"} {
		for _, text := range []string{"made " + name, "replaced " + name} {
			if err := write(d, name, text); err != nil {
				t.Errorf("%s: %v", name, err)
			} else if got := content(t, filepath.Join(path, real)); got != text {
				t.Errorf("%s: %s has %q", name, real, got)
			}
		}
	}
	if to, err := os.Readlink(filepath.Join(path, "link")); err != nil || to != "sub/real" {
		t.Errorf("the link leads to %q, %v", to, err)
	}
}

// names returns the paths of all files and directories below a directory.
func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	must.Do(t, fs.WalkDir(os.DirFS(dir), ".", func(path string, _ fs.DirEntry, err error) error {
		if path != "." {
			all = append(all, path)
		}
		return err
	}))
	return all
}

// A brokenReader fails after some text.
type brokenReader struct{ err error }

func (r brokenReader) Read(b []byte) (int, error) { return copy(b, "half"), r.err }

func TestAFailedWriteLeavesNothing(t *testing.T) {
	d, path := workspace(t)
	file := filepath.Join(path, "file")
	put(t, file, "old", 0o644)
	broken := errors.New("broken")
	for name, tt := range map[string]struct {
		path string
		w    Write
		want error
	}{
		"broken, new":          {"new", Write{Content: brokenReader{broken}, Limit: 100}, broken},
		"broken, old":          {"file", Write{Content: brokenReader{broken}, Limit: 100}, broken},
		"broken, directories":  {"a/b/c", Write{Content: brokenReader{broken}, Limit: 100}, broken},
		"a name too long":      {"a/b/" + strings.Repeat("x", 300), Write{Content: strings.NewReader("x"), Limit: 4}, ErrName},
		"too long a directory": {"a/" + strings.Repeat("x", 300) + "/c", Write{Content: strings.NewReader("x"), Limit: 4}, ErrName},
		"too large":            {"new", Write{Content: strings.NewReader("12345"), Limit: 4}, ErrTooLarge},
		"a file there already": {"file", Write{Content: strings.NewReader("x"), Limit: 4, Check: Fresh}, fs.ErrExist},
	} {
		if _, err := d.Write(tt.path, tt.w); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
		if got := names(t, path); !slices.Equal(got, []string{"file", "sub"}) || content(t, file) != "old" {
			t.Errorf("%s: there are %q, and the file has %q", name, got, content(t, file))
		}
	}
	if err := write(d, "a/b/c", strings.Repeat("x", 1<<20)); err != nil || len(content(t, filepath.Join(path, "a/b/c"))) != 1<<20 {
		t.Errorf("a file of just the limit: %v", err)
	}
}

// Of many writers that allow only a new file, one succeeds: also if it appears while they write.
func TestFreshReplacesNothing(t *testing.T) {
	d, path := workspace(t)
	appears := func(b []byte) {
		put(t, filepath.Join(path, "new"), "theirs", 0o644)
	}
	_, err := d.Write("new", Write{Content: &actingReader{act: appears}, Limit: 10, Check: Fresh})
	if !errors.Is(err, fs.ErrExist) || content(t, filepath.Join(path, "new")) != "theirs" {
		t.Errorf("%v, and the file has %q", err, content(t, filepath.Join(path, "new")))
	}
	results := make(chan error)
	const writers = 20
	for range writers {
		go func() {
			_, err := d.Write("one", Write{Content: strings.NewReader("x"), Limit: 10, Check: Fresh})
			results <- err
		}()
	}
	made := 0
	for range writers {
		if err := <-results; err == nil {
			made++
		} else if !errors.Is(err, fs.ErrExist) {
			t.Error(err)
		}
	}
	if made != 1 {
		t.Errorf("%d writers made the file", made)
	}
}

// An actingReader acts once when it is read, and is empty.
type actingReader struct{ act func(b []byte) }

func (r *actingReader) Read(b []byte) (int, error) {
	if r.act != nil {
		r.act(b)
		r.act = nil
	}
	return 0, io.EOF
}

func TestVersionsChange(t *testing.T) {
	d, path := workspace(t)
	seen := map[string]bool{}
	version := func(how string) {
		f := must.Get(d.Open("file"))(t)
		defer f.Close()
		if v := Version(f.Info); seen[v] {
			t.Errorf("%s: the version %s again", how, v)
		} else {
			seen[v] = true
		}
	}
	for range 3 {
		w := must.Get(d.Write("file", Write{Content: strings.NewReader("same"), Limit: 10}))(t)
		version("written")
		if !seen[Version(w.Info)] {
			t.Errorf("Write returns another version than Open: %s", Version(w.Info))
		}
	}
	put(t, filepath.Join(path, "file"), "longer than before", 0o644)
	version("overwritten in place")
}
