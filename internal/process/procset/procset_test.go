//go:build unix

package procset_test

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/process/ladder"
	"asyncrepl/internal/process/procset"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
)

// none is a pid that no process can have.
const none = 1 << 22

func noneReaped() int64 { return 0 }

// programs starts programs that lead groups of their own and are reaped as soon as they end, and
// returns the set of those that are left. Each prints a line when it is ready.
func programs(t testing.TB, scripts ...string) procset.Set {
	t.Helper()
	var pids []int
	for _, script := range scripts {
		c := exec.Command("sh", "-c", script)
		c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		out := must.Get(c.StdoutPipe())(t)
		must.Do(t, c.Start())
		must.Get(out.Read(make([]byte, 1)))(t)
		reaped := make(chan struct{})
		go func() { // owned by the test, which waits for it; ends with the program
			defer close(reaped)
			c.Wait()
		}()
		t.Cleanup(func() {
			syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
			<-reaped
		})
		pids = append(pids, c.Process.Pid)
	}
	scan := func() (es []procfs.Stat, err error) {
		for _, pid := range pids {
			if e, err := procfs.Inspect(pid); err == nil {
				es = append(es, e)
			} else if !errors.Is(err, procfs.ErrGone) {
				return es, err
			}
		}
		return es, nil
	}
	return procset.Set{Scan: scan, Reaped: noneReaped}
}

// TerminateThenKill reports the rungs that it tries, and kills only what outlives the grace.
func TestTerminateThenKillReportsRungs(t *testing.T) {
	const obeys = "echo; exec sleep 1000"
	const ignores = "trap '' TERM HUP; echo; while :; do sleep 1000; done"
	for _, tt := range []struct {
		name    string
		scripts []string
		grace   time.Duration
		want    []ladder.Rung
	}{
		{"nothing", nil, polltest.Patience, nil},
		{"all obey", []string{obeys, obeys}, polltest.Patience, []ladder.Rung{ladder.Terminate}},
		{"one ignores it", []string{obeys, ignores}, time.Millisecond, []ladder.Rung{ladder.Terminate, ladder.Kill}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := programs(t, tt.scripts...)
			var tried []ladder.Rung
			survivors, err := s.TerminateThenKill(tt.grace, func(r ladder.Rung) { tried = append(tried, r) })
			if err != nil || len(survivors) > 0 || !s.Empty() {
				t.Errorf("survivors %v, error %v, empty: %v", survivors, err, s.Empty())
			}
			if !slices.Equal(tried, tt.want) {
				t.Errorf("tried %v, want %v", tried, tt.want)
			}
		})
	}
}

// Two scans in a row must find nothing. A scan that reaps an orphan does not count, because the
// orphan's children come to light with the next one.
func TestEmptyNeedsTwoScansThatReapNothing(t *testing.T) {
	scans, reaped := 0, int64(0)
	s := procset.Set{
		Scan: func() ([]procfs.Stat, error) {
			if scans++; scans <= 2 {
				reaped++
			}
			return nil, nil
		},
		Reaped: func() int64 { return reaped },
	}
	if !s.Empty() || scans != 4 {
		t.Errorf("empty: %v after %d scans, want after 4: two that reap, two that prove", s.Empty(), scans)
	}
	scans, reaped = 2, 0
	late := func() ([]procfs.Stat, error) { // the child of a process that ended before
		if scans++; scans == 4 {
			return []procfs.Stat{{Process: procfs.Process{PID: none}}}, nil
		}
		return nil, nil
	}
	if (procset.Set{Scan: late, Reaped: noneReaped}).Empty() {
		t.Error("the second scan finds a process, and still the set is called empty")
	}
}

// A scan that fails is repeated. If it fails to the end, the result says so and names no survivors.
func TestUncheckedNamesNoSurvivors(t *testing.T) {
	cause := errors.New("no descriptor")
	alive := procfs.Stat{Process: procfs.Process{PID: none}}
	scans := 0
	failing := procset.Set{Reaped: noneReaped, Scan: func() ([]procfs.Stat, error) {
		scans++
		return []procfs.Stat{alive}, cause
	}}
	begin := time.Now()
	survivors, err := failing.KillUntil(begin.Add(50 * time.Millisecond))
	if survivors != nil || !errors.Is(err, cause) || !strings.Contains(err.Error(), "could not be checked") {
		t.Errorf("survivors %v, error %v", survivors, err)
	}
	if scans < 3 || time.Since(begin) < 50*time.Millisecond {
		t.Errorf("%d scans in %v: it must be repeated", scans, time.Since(begin))
	}
	if failing.Empty() {
		t.Error("a scan that fails proves that nothing is left")
	}
	failures := 3
	later := procset.Set{Reaped: noneReaped, Scan: func() ([]procfs.Stat, error) {
		if failures--; failures >= 0 {
			return nil, cause
		}
		return nil, nil
	}}
	if survivors, err := later.KillUntil(time.Now().Add(polltest.Patience)); survivors != nil || err != nil {
		t.Errorf("after a scan that succeeds: survivors %v, error %v", survivors, err)
	}
}

// The first scan can take longer than the time that is given. What it finds is killed all the same.
func TestLateScanStillKills(t *testing.T) {
	s := programs(t, "trap '' TERM HUP; echo; while :; do sleep 1000; done")
	if survivors, err := s.KillUntil(time.Now().Add(-time.Second)); survivors != nil || err != nil || !s.Empty() {
		t.Errorf("survivors %v, error %v, empty: %v", survivors, err, s.Empty())
	}
}

// A killed process that is not reaped yet is no survivor, and does not make the check fail.
func TestLateScansWaitForDyingProcesses(t *testing.T) {
	dying := 10
	s := procset.Set{
		Scan: func() ([]procfs.Stat, error) {
			if dying--; dying < 0 {
				return nil, nil
			}
			return []procfs.Stat{{Process: procfs.Process{PID: none}, State: 'Z'}}, nil
		},
		Reaped: func() int64 { return 0 },
	}
	if survivors, err := s.KillUntil(time.Now().Add(-time.Second)); survivors != nil || err != nil {
		t.Errorf("survivors %v, error %v", survivors, err)
	}
}

// Scans that find nothing prove nothing while they reap: a fork bomb hides in that way.
func TestRestlessSetIsNotGone(t *testing.T) {
	reaped := int64(0)
	s := procset.Set{
		Scan:   func() ([]procfs.Stat, error) { reaped++; return nil, nil },
		Reaped: func() int64 { return reaped },
	}
	if survivors, err := s.KillUntil(time.Now()); survivors != nil || err == nil || !strings.Contains(err.Error(), "could not be checked") {
		t.Errorf("survivors %v, error %v", survivors, err)
	}
}

// A signal to the rest of a leader's group must not reach the leader.
func TestSparingTakesLeadersOutOfTheirGroups(t *testing.T) {
	stat := func(pid, group int) procfs.Stat { return procfs.Stat{Process: procfs.Process{PID: pid, Group: group}} }
	all := procset.Set{Scan: func() ([]procfs.Stat, error) {
		return []procfs.Stat{stat(none, none), stat(none+1, none), stat(none+2, none+2)}, nil
	}}
	es, err := all.Sparing(map[int]bool{none: true}).Scan()
	var got []string
	for _, e := range es {
		got = append(got, fmt.Sprintf("%d of group %d", e.PID-none, e.Group))
	}
	if want := []string{"1 of group 0", fmt.Sprintf("2 of group %d", none+2)}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, error %v; want %v", got, err, want)
	}
}
