//go:build unix

package changes

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/test/must"
)

// write makes a file, with the directories above it.
func write(t *testing.T, parts ...string) {
	t.Helper()
	path := filepath.Join(parts...)
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must.Do(t, os.WriteFile(path, []byte("text"), 0o600))
}

// all is Since without a bound of the time: a busy machine can stop a test for longer.
func all(dir string, from Moment) Files { return since(dir, from, time.Hour, maxEntries) }

// later returns a moment that all files of dir are older than.
func later(t *testing.T, dir string) Moment {
	t.Helper()
	for {
		now := Now()
		if found := all(dir, now); found.NewCount+found.ChangedCount == 0 {
			return now
		}
	}
}

// knowsBirths reports whether the file system of the tests keeps when a file was made.
func knowsBirths(t *testing.T) bool {
	dir := t.TempDir()
	write(t, dir, "a")
	fd := must.Get(unix.Open(dir, unix.O_RDONLY, 0))(t)
	defer unix.Close(fd)
	born, _, err := times(fd, "a")
	return err == nil && !born.IsZero()
}

// want compares what has been found. A file system that knows no births calls new files changed.
func want(t *testing.T, got Files, made, changed []string) {
	t.Helper()
	if !knowsBirths(t) {
		changed, made = first(slices.Concat(made, changed)), nil
	}
	if !slices.Equal(got.New, made) || !slices.Equal(got.Changed, changed) || got.NewCount != len(made) || got.ChangedCount != len(changed) || got.Partial {
		t.Errorf("found %+v, want new %v, changed %v", got, made, changed)
	}
}

func TestNewAndChangedFilesAreFound(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"old", "changed", "sub/changed", "replaced", "gone", "renamed"} {
		write(t, dir, name)
	}
	from := later(t, dir)
	for _, name := range []string{"changed", "sub/changed", "b", "sub/a", "sub/deep/c", "another"} {
		write(t, dir, name)
	}
	write(t, dir, "sub/x")
	old := time.Now().Add(-time.Hour)
	must.Do(t, os.Chtimes(filepath.Join(dir, "b"), old, old)) // as cp -p leaves it
	must.Do(t, os.Rename(filepath.Join(dir, "sub/x"), filepath.Join(dir, "replaced")))
	must.Do(t, os.Remove(filepath.Join(dir, "gone")))
	must.Do(t, os.Rename(filepath.Join(dir, "renamed"), filepath.Join(dir, "moved")))
	must.Do(t, os.Chmod(filepath.Join(dir, "old"), 0o700))
	got := all(dir, from)
	if !knowsBirths(t) {
		want(t, got, []string{"another", "replaced", "sub/a", "sub/deep/c"}, []string{"changed", "sub/changed"})
		return
	}
	want(t, got, []string{"another", "b", "replaced", "sub/a", "sub/deep/c"}, []string{"changed", "sub/changed"})
}

func TestNoFileThatIsWrittenLaterIsMissed(t *testing.T) {
	dir := t.TempDir()
	for i := range 200 {
		from := Now()
		name := fmt.Sprint(i)
		write(t, dir, name)
		if got := all(dir, from); !slices.Contains(slices.Concat(got.New, got.Changed), name) && got.NewCount+got.ChangedCount <= maxNames {
			t.Fatalf("%s is not in %+v", name, got)
		}
		must.Do(t, os.Remove(filepath.Join(dir, name)))
	}
}

func TestWhatIsNoFileOfTheJobIsLeftOut(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	from := Now()
	write(t, elsewhere, "theirs")
	for _, name := range []string{
		".git/a", ".venv/a", ".venvs/x/a", ".venv-3.9/a", "node_modules/a", "__pycache__/a", ".pytest_cache/a",
		"sub/node_modules/a", "sub/__pycache__/a", // all these are left out
		".github/a", "venv/a", "cache/a", ".env", "node_modules.txt",
	} {
		write(t, dir, name)
	}
	must.Do(t, os.Symlink(elsewhere, filepath.Join(dir, "link")))
	must.Do(t, os.Symlink(filepath.Join(elsewhere, "theirs"), filepath.Join(dir, "linked")))
	must.Do(t, os.Symlink("..", filepath.Join(dir, "sub", "up")))
	must.Do(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	want(t, all(dir, from), []string{".env", "node_modules.txt", ".github/a", "cache/a", "venv/a"}, nil)
	want(t, all(filepath.Join(dir, "link"), from), []string{"theirs"}, nil) // the directory itself can be a link
}

func TestFilesOfTheFutureAreNotOfTheJob(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "old")
	from := later(t, dir)
	future := time.Now().Add(24 * time.Hour)
	must.Do(t, os.Chtimes(filepath.Join(dir, "old"), future, future))
	want(t, all(dir, from), nil, nil)
}

func TestDirectoriesThatCanNotBeRead(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "file")
	for _, odd := range []string{"", filepath.Join(dir, "none"), filepath.Join(dir, "file"), "a\x00b"} {
		if got := all(odd, Moment{}); got.NewCount != 0 || got.Partial {
			t.Errorf("%q: %+v", odd, got)
		}
	}
}

// A directory that can't be opened, here because its path is too long, hides none beside it.
func TestDirectoryThatCanNotBeOpenedHidesNoOther(t *testing.T) {
	dir := t.TempDir()
	from := Now()
	root := must.Get(os.OpenRoot(dir))(t)
	long := strings.Repeat("x", 200)
	for depth := len(dir); depth+2*len(long) < unix.PathMax; depth += len(long) + 1 {
		must.Do(t, root.Mkdir(long, 0o700))
		below, err := root.OpenRoot(long)
		root.Close()
		if err != nil {
			t.Fatal(err)
		}
		root = below
	}
	defer root.Close()
	for _, name := range []string{long + long[:50], "beside"} { // the first is too long with the names above it
		must.Do(t, root.Mkdir(name, 0o700))
		f := must.Get(root.Create(name + "/file"))(t)
		f.Close()
	}
	if got := all(dir, from); got.NewCount+got.ChangedCount != 1 || !strings.HasSuffix(slices.Concat(got.New, got.Changed)[0], "/beside/file") {
		t.Errorf("found %d new, %d changed", got.NewCount, got.ChangedCount)
	}
}

// A directory is read to its end, however many entries are read at once.
func TestLargeDirectoryIsReadToItsEnd(t *testing.T) {
	dir := t.TempDir()
	from := Now()
	const files = 2*batch + 10
	for i := range files {
		write(t, dir, fmt.Sprint(i))
	}
	if got := all(dir, from); got.NewCount+got.ChangedCount != files || got.Partial {
		t.Errorf("%d new, %d changed, partial: %v; want %d files", got.NewCount, got.ChangedCount, got.Partial, files)
	}
}

func TestSearchIsBounded(t *testing.T) {
	dir := t.TempDir()
	from := Now()
	for i := range 50 {
		write(t, dir, fmt.Sprint(i))
	}
	if got := since(dir, from, time.Hour, 40); got.NewCount+got.ChangedCount != 40 || len(got.New)+len(got.Changed) != maxNames || !got.Partial {
		t.Errorf("of 40 entries: %+v", got)
	}
	if got := since(dir, from, 0, maxEntries); got.NewCount+got.ChangedCount != 0 || !got.Partial {
		t.Errorf("without time: %+v", got)
	}
}
