package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/test/must"
)

// While another thread swaps a directory for a link that leads out, nothing outside is read, made,
// changed or removed, in a million tries.
func TestSwappedDirectoriesLeadNowhere(t *testing.T) {
	tries := swapTries
	if testing.Short() {
		tries = 10_000
	}
	d, path := workspace(t)
	outside := filepath.Join(filepath.Dir(path), "outside")
	const secret = "secret that must not be read"
	put(t, filepath.Join(outside, "file"), secret, 0o644)
	put(t, filepath.Join(path, "sub", "file"), "mine", 0o644)
	link(t, outside, filepath.Join(path, "absolute"))
	link(t, "../outside", filepath.Join(path, "relative"))
	before := snapshot(t, outside)

	var stop atomic.Bool
	swapped := make(chan int)
	go func() { // the swapper
		n := 0
		for ; !stop.Load(); n++ {
			with := filepath.Join(path, []string{"absolute", "relative"}[n/2%2])
			for range n % 64 * 100 { // some operations need more time than a swap
				runtime.KeepAlive(n)
			}
			if err := unix.Renameat2(unix.AT_FDCWD, filepath.Join(path, "sub"), unix.AT_FDCWD, with, unix.RENAME_EXCHANGE); err != nil {
				t.Error(err)
				break
			}
		}
		swapped <- n
	}()
	var went, refused, left atomic.Int64
	left.Store(int64(tries))
	var all sync.WaitGroup
	for worker := range 3 {
		all.Go(func() {
			name := fmt.Sprintf("sub/own%d", worker)
			for n := 0; left.Add(-1) >= 0; n++ {
				got, err := tryOnce(d, n, name)
				if strings.Contains(got, "secret") {
					t.Errorf("try %d: %q", n, got)
				}
				switch {
				case err == nil:
					went.Add(1)
				case errors.Is(err, ErrOutside):
					refused.Add(1)
				}
			}
		})
	}
	all.Wait()
	stop.Store(true)
	swaps := <-swapped
	t.Logf("%d tries succeeded and %d were refused during %d swaps", went.Load(), refused.Load(), swaps)
	if went.Load() == 0 || refused.Load() == 0 {
		t.Error("one side of the swap was never seen")
	}
	if after := snapshot(t, outside); after != before {
		t.Errorf("outside was\n%s\nand is\n%s", before, after)
	}
}

// tryOnce gets at a file in one of all ways, and returns what it has read.
func tryOnce(d *Dir, n int, name string) (got string, err error) {
	switch n % 8 {
	case 0:
		_, err = d.Write(name, Write{Content: strings.NewReader("mine, which is long"), Limit: 100})
	case 1:
		_, err = d.Edit(name, "mine", "mine", 1)
	case 2:
		err = d.Remove(name)
	case 3:
		var l *Listed
		if l, err = d.List(context.Background(), "sub", Listing{Depth: 2, Files: true, Chars: 1000}); err == nil {
			got = l.Text
		}
	case 4:
		_, err = d.Write("sub/a/b/c", Write{Content: strings.NewReader("x"), Limit: 100})
	default:
		var part *Part
		if part, err = d.Read("sub/file", 0, 100); err == nil {
			got = string(part.Data)
		}
	}
	return got, err
}

// snapshot returns what is in a directory: names, content, and when they last changed.
func snapshot(t *testing.T, dir string) string {
	var b strings.Builder
	must.Do(t, fs.WalkDir(os.DirFS(dir), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := e.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %s\n", path, Version(fi))
		return nil
	}))
	return b.String()
}
