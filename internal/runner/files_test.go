//go:build unix

package runner

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestShortJobHasNoFiles(t *testing.T) {
	dir := t.TempDir()
	watch := Begin()
	if err := os.WriteFile(filepath.Join(dir, "new"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	watch.began = time.Now().Add(time.Hour)
	if got := watch.Files(dir); got.NewCount+got.ChangedCount != 0 || got.Partial {
		t.Errorf("of a short job: %+v", got)
	}
	for watch.began = watch.began.Add(-2 * time.Hour); ; { // a busy machine can stop a search
		got := watch.Files(dir)
		if got.NewCount+got.ChangedCount == 1 {
			return
		}
		if !got.Partial {
			t.Fatalf("of a long job: %+v", got)
		}
	}
}
