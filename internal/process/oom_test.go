//go:build linux

package process

import (
	"sync/atomic"
	"syscall"
	"testing"

	"asyncrepl/internal/ladder"
)

func TestOutOfMemoryIsTheKernelsWord(t *testing.T) {
	tests := []struct {
		name string
		kill func(j *job, count *atomic.Uint64) // ends it
		want bool
	}{
		{"by the kernel", func(j *job, n *atomic.Uint64) { n.Add(1); syscall.Kill(j.PID(), syscall.SIGKILL) }, true},
		{"by another process", func(j *job, n *atomic.Uint64) { syscall.Kill(j.PID(), syscall.SIGKILL) }, false},
		{"another signal", func(j *job, n *atomic.Uint64) { n.Add(1); syscall.Kill(j.PID(), syscall.SIGTERM) }, false},
		{"by us", func(j *job, n *atomic.Uint64) { n.Add(1); j.Stop(Ladder{From: ladder.Kill}) }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var count atomic.Uint64
			count.Store(5) // from long ago
			o := newOwner(t)
			o.kills.read = func() (uint64, error) { return count.Load(), nil }
			j := onPipe(t, o, "job", "sleep 1000")
			tt.kill(j, &count)
			if got := ends(t, j.Handle); got.OOM != tt.want {
				t.Errorf("got %+v, want out of memory: %v", got, tt.want)
			}
		})
	}
}

// One kill by the kernel explains one death.
func TestOneKillExplainsOneDeath(t *testing.T) {
	count := uint64(7)
	c := oomCounter{read: func() (uint64, error) { return count, nil }}
	since := c.recent()
	if c.claim(since) {
		t.Error("claimed a kill that did not happen")
	}
	count += 2
	for i, want := range []bool{true, true, false} {
		if got := c.claim(since); got != want {
			t.Errorf("claim %d: got %v, want %v", i, got, want)
		}
	}
	if _, err := oomKills(); err != nil {
		t.Error(err)
	}
}
