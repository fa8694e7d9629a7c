package listening

import (
	"testing"

	"asyncrepl/internal/kernel/procfs"
)

// BenchmarkPoll measures one poll for 500 jobs, of which there are ten a second, while no program
// begins to listen. Its floor is the reading of the kernel's table.
func BenchmarkPoll(b *testing.B) {
	b.Run("table", func(b *testing.B) {
		for b.Loop() {
			if _, err := listeners(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("500 jobs", func(b *testing.B) {
		p := poller{trees: make(map[*Tree]bool), due: true}
		for range 500 {
			t := NewTree(func() ([]procfs.Process, error) { return nil, nil })
			t.report = func([]Port) {}
			p.trees[t] = true
		}
		for b.Loop() {
			p.poll()
		}
	})
}
