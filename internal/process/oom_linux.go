package process

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// oomKills is how many processes of our own control group the kernel has killed for want of memory. Our children are in
// it unless they were moved, and the counts of other groups, of groups within ours too, are mostly of strangers. Where
// our group does not count it is the system's number.
func oomKills() (uint64, bool) {
	b, err := slurp(oomFile(), nil)
	if err != nil {
		return 0, false
	}
	for line := range bytes.Lines(b) {
		if name, value, ok := strings.Cut(strings.TrimSpace(string(line)), " "); ok && name == "oom_kill" {
			n, err := strconv.ParseUint(value, 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// oomFile is where the count stands. It is looked for anew each time: a process may be moved.
func oomFile() string {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err == nil {
		for line := range strings.Lines(string(groups)) {
			_, group, _ := strings.Cut(strings.TrimSpace(line), ":")
			controllers, dir, _ := strings.Cut(group, ":")
			var file string
			switch controllers {
			case "memory": // version 1
				file = filepath.Join("/sys/fs/cgroup/memory", dir, "memory.oom_control")
			case "": // version 2
				file = filepath.Join("/sys/fs/cgroup", dir, "memory.events.local")
			default:
				continue
			}
			if _, err := os.Stat(file); err == nil {
				return file
			}
		}
	}
	return "/proc/vmstat"
}
