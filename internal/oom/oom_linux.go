package oom

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Kills returns how many processes of our own control group the kernel has killed because memory
// was short. Our children are in that group unless they were moved; other groups, even those within
// ours, count mostly the processes of others. If our group has no count, Kills returns that of the
// whole system.
func Kills() (uint64, error) {
	file := countFile()
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(b) {
		if name, value, ok := strings.Cut(strings.TrimSpace(string(line)), " "); ok && name == "oom_kill" {
			return strconv.ParseUint(value, 10, 64)
		}
	}
	return 0, fmt.Errorf("%s: no count of OOM kills", file)
}

// countFile returns the file with the count. It reads our group each time, because a process can be
// moved to another.
func countFile() string {
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
