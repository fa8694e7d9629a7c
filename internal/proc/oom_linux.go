package proc

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// oomKills is how many processes the kernel has killed for want of memory: in our control group where it counts, else
// in the whole system.
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
			if dir, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
				file := filepath.Join("/sys/fs/cgroup", dir, "memory.events")
				if _, err := os.Stat(file); err == nil {
					return file
				}
			}
		}
	}
	return "/proc/vmstat"
}
