package history

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
	"asyncrepl/jobs"
)

// On a full disk jobs run on, the store says so, and no record is false: a job that was recorded
// gets its end.
func TestFullDisk(t *testing.T) {
	child := exec.Command(must.Get(os.Executable())(t), partFull, t.TempDir())
	child.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := child.CombinedOutput()
	if err != nil && (errors.Is(err, syscall.EPERM) || strings.HasPrefix(string(out), "mounting")) {
		needtest.Right(t, "mount a disk", err, out)
	} else if err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

// fillDisk runs jobs on a disk of its own before it is full, while it is and after that.
func fillDisk(c Config) error {
	if err := syscall.Mount("tmpfs", c.State, "tmpfs", 0, "size=600k,mode=700"); err != nil {
		return fmt.Errorf("mounting a disk: %w", err)
	}
	e := newEngine(c)
	var begun []*jobs.Job
	for range 20 {
		begun = append(begun, must1(e.Start(jobs.Spec{Kind: jobs.Shell, Title: "before"}, waits(""))))
	}
	filler := filepath.Join(c.State, "filler")
	full := os.WriteFile(filler, make([]byte, 1<<20), 0o600)
	if !errors.Is(full, syscall.ENOSPC) {
		return fmt.Errorf("the disk is not full: %v", full)
	}
	var refused *jobs.Job
	for e.Status().Failure == nil && len(begun) < 1000 {
		refused = must1(e.Start(jobs.Spec{Kind: jobs.Shell, Title: "before"}, waits("runs on")))
		begun = append(begun, refused)
	}
	begun = begun[:len(begun)-1]
	if err := e.Status().Failure; !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("the store says %v", err)
	}
	for range 1000 { // the ends keep their space
		e.Resize(begun[0].ID(), jobs.Size{Rows: 40, Cols: 120}) // an error: the disk is full
	}
	for _, j := range begun[:20] {
		j.Stop(jobs.Stop{By: jobs.Agent})
		<-j.Done()
	}
	if err := refused.Log().Wait(context.Background(), 0); err != nil {
		return err
	}
	if got := text(refused); got != "runs on" {
		return fmt.Errorf("output on the full disk: %q", got)
	}
	// Another engine reads it while it is as it was at that moment.
	journal := must1(os.ReadFile(filepath.Join(e.run.dir, journalName)))
	if got := strings.Count(string(journal), `"event":"end"`); got != 20 {
		return fmt.Errorf("%d of 20 ends were recorded", got)
	}
	if err := os.Remove(filler); err != nil {
		return err
	}
	after := must1(e.Start(jobs.Spec{Kind: jobs.Shell, Title: "after"}, runFunc(func(ctx context.Context, p *jobs.Port) jobs.Outcome { return prints("x")(ctx, p) })))
	<-after.Done()
	if err := e.Status().Failure; err != nil {
		return fmt.Errorf("with room again: %v", err)
	}
	e.end()
	second := newEngine(c)
	defer second.end()
	count := make(map[string]int)
	for _, record := range second.List(jobs.Filter{}) {
		count[record.Title+" "+string(record.Status)]++
	}
	if len(count) != 2 || count["before cancelled"] != len(begun)+1 || count["after completed"] != 1 {
		return fmt.Errorf("the next engine shows %v", count)
	}
	return nil
}
