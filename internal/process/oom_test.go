//go:build linux

package process

import (
	"sync/atomic"
	"syscall"
	"testing"

	"asyncrepl/internal/process/ladder"
)

// Only the kernel's count makes a SIGKILL an out-of-memory kill.
func TestOutOfMemoryNeedsTheKernelsCount(t *testing.T) {
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
			o.kills = newOOMCounter(func() (uint64, error) { return count.Load(), nil })
			j := onPipe(t, o, "job", "sleep 1000")
			tt.kill(j, &count)
			if got := ends(t, j.Handle); got.OOM != tt.want {
				t.Errorf("got %+v, want out of memory: %v", got, tt.want)
			}
		})
	}
}
