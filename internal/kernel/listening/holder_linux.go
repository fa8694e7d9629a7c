package listening

import (
	"net/netip"
	"slices"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/kernel/sockdiag"
)

// Holder returns a process that has the end local of a connection to remote open, or 0 if none is found. Of
// several it is the one with the highest pid: a shell and its program can both have it.
func Holder(local, remote netip.AddrPort) int {
	s, err := sockdiag.Connection(local, remote)
	if err != nil {
		return 0
	}
	all, _ := procfs.All() // an error: none is found
	slices.SortFunc(all, func(a, b procfs.Stat) int { return b.PID - a.PID })
	for _, p := range all {
		if inodes, _ := sockets(p.PID); slices.Contains(inodes, uint64(s.Inode)) {
			return p.PID
		}
	}
	return 0
}
