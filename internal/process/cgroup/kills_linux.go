package cgroup

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Kills returns how many processes of our own control group the kernel has killed because memory
// was short. Our children are in that group unless they were moved; other groups, even groups
// within ours, count mostly the processes of others. If our group has no count, Kills returns the
// count of the whole system.
func Kills() (uint64, error) {
	// It is read each time, because a process can be moved to another group.
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		groups = nil
	}
	for line := range strings.Lines(string(groups)) {
		_, group, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, dir, _ := strings.Cut(group, ":")
		switch controllers {
		case "memory": // version 1
			if n, err := readCount(filepath.Join("/sys/fs/cgroup/memory", dir, "memory.oom_control"), "oom_kill"); err == nil {
				return n, nil
			}
		case "": // version 2
			if n, err := localKills(filepath.Join("/sys/fs/cgroup", dir)); err == nil {
				return n, nil
			}
		}
	}
	return readCount("/proc/vmstat", "oom_kill")
}

// localKills returns the count of a group of version 2, without the groups within
// (memory.events.local in https://www.kernel.org/doc/html/latest/admin-guide/cgroup-v2.html). It
// adds the kills that were counted in the base, which we have left since: the count must never
// fall.
func localKills(dir string) (uint64, error) {
	const events = "memory.events.local"
	n, err := readCount(filepath.Join(dir, events), "oom_kill")
	if err != nil || !strings.HasPrefix(filepath.Base(dir), namePrefix) {
		return n, err
	}
	// An error means that it is the root, which has no count.
	before, _ := readCount(filepath.Join(filepath.Dir(dir), events), "oom_kill")
	return n + before, nil
}

// readCount returns the count with a name in a file of lines, a name and a number each.
func readCount(file, name string) (uint64, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(b) {
		if of, value, ok := strings.Cut(strings.TrimSpace(string(line)), " "); ok && of == name {
			return strconv.ParseUint(value, 10, 64)
		}
	}
	return 0, fmt.Errorf("%s: no count %s", file, name)
}
