package shell_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

func TestReceiptNamesTheFilesOfALongJob(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, name := range []string{"old", "other"} {
		if err := os.WriteFile(filepath.Join(b.dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	jobstest.End(t, b.start("sleep 0.02")) // the clock of files goes in steps
	for round := 0; ; round++ {
		name := fmt.Sprintf("new%d", round)
		record := jobstest.End(t, b.start("echo x >> old; mkdir -p sub; touch sub/"+name+"; sleep 0.11; exit 3"))
		got := record.Receipt.Files
		if got.Partial { // a busy machine has stopped the search
			continue
		}
		all := slices.Sorted(slices.Values(slices.Concat(got.New, got.Changed)))
		if want := []string{"old", "sub/" + name}; !slices.Equal(all, want) || got.NewCount+got.ChangedCount != 2 {
			t.Errorf("found %+v, want %v", got, want)
		}
		return
	}
}

func TestShutdownDoesNotSearchForFiles(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	j := b.start("touch new; sleep 0.11; echo ready; sleep 1000")
	jobstest.Prints(t, j, "ready")
	j.Stop(jobs.Stop{By: jobs.Shutdown, From: jobs.Kill})
	if got := jobstest.End(t, j).Receipt.Files; got.NewCount+got.ChangedCount != 0 {
		t.Errorf("found %+v", got)
	}
}
