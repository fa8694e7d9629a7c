package pyrepl_test

import (
	"fmt"
	"slices"
	"testing"
)

// The directory that counts is that of the session's Python, which os.chdir changes.
func TestReceiptNamesTheFilesOfALongJob(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.run("import os, time, tempfile; elsewhere = os.path.abspath(tempfile.mkdtemp(dir='.'))")
	for _, step := range []struct{ before, after string }{
		{"open('%s', 'w').close()", ""},
		{"os.chdir(elsewhere); open('%s', 'w').close()", ""},
		{"open('%s', 'w').close()", "1 / 0"},
	} {
		for round := 0; ; round++ {
			name := fmt.Sprintf("new%d", round)
			record, _ := b.run(fmt.Sprintf(step.before, name) + "; time.sleep(0.11)\n" + step.after)
			got := record.Receipt.Files
			if got.Partial { // a busy machine has stopped the search
				continue
			}
			if all := slices.Concat(got.New, got.Changed); !slices.Contains(all, name) {
				t.Errorf("%q: found %+v, want %s", step.before, got, name)
			}
			break
		}
	}
}
