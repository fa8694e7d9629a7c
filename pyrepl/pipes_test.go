package pyrepl_test

import (
	"fmt"
	"os"
	"runtime"
	"testing"

	"asyncrepl/internal/test/polltest"
)

// An idle session holds the same number of descriptors after many jobs as after a few.
func TestJobsLeaveNoDescriptorsOpen(t *testing.T) {
	inFull(t)
	if runtime.GOOS != "linux" {
		t.Skip("only Linux lists them")
	}
	b := newBench(t)
	open := func() int {
		all, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	for range 5 {
		b.run("1")
	}
	most := open()
	for range 100 {
		b.run("print(1)")
	}
	polltest.Check(t, func() error {
		if now := open(); now > most {
			return fmt.Errorf("%d descriptors are open, %d were after the first jobs", now, most)
		}
		return nil
	})
}
