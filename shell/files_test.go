package shell_test

import (
	"fmt"
	"slices"
	"testing"

	"asyncrepl/jobs/jobstest"
)

func TestReceiptNamesTheFilesOfALongJob(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, name := range []string{"old", "other"} {
		b.write(name, "")
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
