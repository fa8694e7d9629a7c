package changes

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/test/must"
)

// skipUnlessFine skips the test if the kernel or the file system of dir gives files no fine times.
func skipUnlessFine(t *testing.T, dir string) {
	t.Helper()
	fd := must.Get(unix.Open(dir, unix.O_RDONLY, 0))(t)
	defer unix.Close(fd)
	if !hasFineTimes(fd) {
		t.Skip("no fine times in", dir)
	}
	last := fineNow()
	for range 50 { // a coarse clock stands still between some of so many
		next := fineNow()
		if !next.After(last) {
			t.Skip("the times of files are coarse")
		}
		last = next
	}
}

// A file that was written immediately before a moment is not found, and one written immediately
// after it is.
func TestMomentsAreExact(t *testing.T) {
	dir := t.TempDir()
	skipUnlessFine(t, dir)
	for i := range 50 {
		before, after := fmt.Sprint("before", i), fmt.Sprint("after", i)
		write(t, dir, before)
		must.Get(os.Stat(filepath.Join(dir, before)))(t) // its next time is fine
		write(t, dir, before)
		from := Now()
		write(t, dir, after)
		want(t, all(dir, from), []string{after}, nil)
	}
}
