package process

import (
	"os"

	"asyncrepl/internal/kernel/procfs"
)

// Orphans do not come to us on this system, and a process shows neither its environment nor its
// files. A tree is the leader, its descendants and the members of its session.

func becomeSubreaper() bool { return false }

// lingers reports whether a session whose leader has ended still has members, or can have.
func lingers(session int) bool {
	es, err := walk(session, nil)
	return len(es) > 0 || err != nil
}

func ownChildren() ([]int, error) { return nil, nil }

// walk returns the roots that still exist, all their descendants, and the members of the session.
func walk(session int, roots []procfs.Process) (es []procfs.Stat, err error) {
	in := make(map[int]bool)
	start := make(map[int]uint64)
	for _, r := range roots {
		start[r.PID] = r.Start
	}
	all, err := procfs.All()
	for grown := true; grown; {
		grown = false
		for _, e := range all {
			t, root := start[e.PID]
			if !in[e.PID] && (root && t == e.Start || in[e.Parent] || session > 1 && e.Session == session) {
				in[e.PID], grown = true, true
				es = append(es, e)
			}
		}
	}
	return es, err
}

func childSignals() (<-chan os.Signal, func()) { return nil, func() {} }

func resetInheritance() {}
