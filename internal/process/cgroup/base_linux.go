package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"asyncrepl/internal/kernel/procfs"

	"golang.org/x/sys/unix"
)

// own is the base of this program's groups. It is a fact of the whole program, as its group is.
var own struct {
	sync.Mutex
	opened bool
	base   string
	err    error // why there is no base

	included map[int]uint64 // start times by pid: processes that are ours, although this program has not started them
}

// Include has a process count as ours that this program has not started: the front of a client, which has
// started this program. It is in the same group, and would keep it from having limits.
func Include(p procfs.Process) {
	own.Lock()
	defer own.Unlock()
	if own.included == nil {
		own.included = make(map[int]uint64)
	}
	own.included[p.PID] = p.Start
}

// Available returns why no groups can be made here, or nil. It changes nothing.
func Available() error {
	own.Lock()
	defer own.Unlock()
	if own.opened {
		return own.err
	}
	_, err := find()
	return err
}

// open returns the directory of the base, or "" if no groups can be made here. The first call makes
// the base ready.
func open() string {
	own.Lock()
	defer own.Unlock()
	if !own.opened {
		own.opened = true
		if own.base, own.err = find(); own.err == nil {
			own.err = prepare(own.base)
		}
		if own.err != nil {
			own.base = ""
		}
	}
	return own.base
}

// find returns the directory of the group that this program is in. The error says why no groups can
// be made in it.
func find() (base string, err error) {
	if base, err = current(); err != nil {
		return "", err
	}
	controllers, err := os.ReadFile(filepath.Join(base, "cgroup.controllers"))
	if err != nil {
		return "", err
	}
	if !slices.Contains(strings.Fields(string(controllers)), "memory") {
		return "", fmt.Errorf("%s has no memory controller", base)
	}
	for _, name := range []string{"", "cgroup.procs", "cgroup.subtree_control"} {
		path := filepath.Join(base, name)
		if err := unix.Access(path, unix.W_OK); err != nil {
			return "", fmt.Errorf("%s can't be written: %w", path, err)
		}
	}
	if isRoot(base) {
		return base, nil
	}
	_, others, err := members(base)
	if err == nil && len(others) > 0 {
		err = fmt.Errorf("process %d (%s), which this server has not started, is in %s, too", others[0].PID, others[0].Program, base)
	}
	return base, err
}

// current returns the directory of the group that this program is in.
func current() (string, error) {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	return locate(string(groups), string(mounts))
}

// locate returns the directory of this program's group of version 2. groups is the contents of
// /proc/self/cgroup (https://man7.org/linux/man-pages/man7/cgroups.7.html), and mounts the contents
// of /proc/self/mountinfo (https://man7.org/linux/man-pages/man5/proc_pid_mountinfo.5.html). In a
// cgroup namespace, a path that begins with /.. is outside the namespace
// (https://man7.org/linux/man-pages/man7/cgroup_namespaces.7.html).
func locate(groups, mounts string) (string, error) {
	name := ""
	for line := range strings.Lines(groups) {
		if of, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			name = of
		}
	}
	if name == "" {
		return "", errors.New("the system has control groups of version 1 only")
	}
	outside := func(path string) bool { return path == "/.." || strings.HasPrefix(path, "/../") }
	for line := range strings.Lines(mounts) {
		mount, kind, _ := strings.Cut(line, " - ")
		// The fourth field is the mounted directory, the fifth is where it is mounted.
		fields := strings.Fields(mount)
		if !strings.HasPrefix(kind, "cgroup2 ") || len(fields) < 5 || outside(fields[3]) || outside(name) {
			continue
		}
		if below, err := filepath.Rel(fields[3], name); err == nil && filepath.IsLocal(below) {
			return filepath.Join(fields[4], below), nil
		}
	}
	return "", errors.New("the control group of the server is not mounted")
}

// isRoot reports whether base is the root of all groups, where processes can be beside groups.
func isRoot(base string) bool { return missing(base, "cgroup.type") }

// members returns the living processes in a group: this program, its descendants and what Include has
// named, and the others. The caller holds own. One that this program can't see, because it is in another pid namespace, has the pid 0.
func members(dir string) (ours, others []procfs.Process, err error) {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil, nil, err
	}
	// They are listed later than the group, so a process that is missing has ended.
	all, err := procfs.All()
	if err != nil {
		return nil, nil, err
	}
	byPID := make(map[int]procfs.Stat, len(all))
	for _, s := range all {
		byPID[s.PID] = s
	}
	for line := range bytes.Lines(b) {
		pid, err := strconv.Atoi(string(bytes.TrimSpace(line)))
		if err != nil {
			return nil, nil, err
		}
		s, there := byPID[pid]
		switch {
		case pid == 0:
			others = append(others, procfs.Process{Program: "of another namespace"})
		case !there || s.Ended():
		case descends(byPID, pid, os.Getpid()), own.included[pid] == s.Start:
			ours = append(ours, s.Process)
		default:
			others = append(others, s.Process)
		}
	}
	return ours, others, nil
}

// descends reports whether a process is another one or a descendant of it.
func descends(byPID map[int]procfs.Stat, pid, from int) bool {
	for range byPID { // a parent can have ended, and its pid can belong to a child of pid by now
		if pid == from {
			return true
		}
		pid = byPID[pid].Parent
	}
	return false
}

// prepare moves this program and its descendants from the base to a group of their own, and enables
// limits of memory for the groups of the base. After an error all is as before.
func prepare(base string) (err error) {
	leaf := leafOf(base, os.Getpid())
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	defer func() {
		if err != nil {
			vacate(leaf, base)
			remove(leaf, time.Now())
		}
	}()
	// A process can start another one in the base until it is moved itself, so the move is
	// repeated.
	for ours := []procfs.Process{{}}; len(ours) > 0; {
		if ours, _, err = members(base); err != nil {
			return err
		}
		for _, p := range ours {
			if err := put(leaf, p.PID); err != nil {
				return err
			}
		}
	}
	return write(base, "cgroup.subtree_control", "+memory")
}

// cleanLimit bounds how long Clean waits for the server to exit: the kernel removes no group that
// has a process, and a server that never exits must not keep its guard forever.
const cleanLimit = time.Second

// Clean removes the groups that a server has made, whose pid was server and whose child this
// program was: it must have ended all processes in them. This program moves to the base.
func Clean(server int) {
	leaf, err := current()
	if err != nil || filepath.Base(leaf) != filepath.Base(leafOf("", server)) {
		return // the server has made none
	}
	until := time.Now().Add(cleanLimit)
	base := filepath.Dir(leaf)
	groups, _ := filepath.Glob(leaf + "-*") // no error: the pattern is good
	for _, group := range groups {
		remove(group, until)
	}
	// Else the base would take no processes. Other groups in it may need their limits.
	if rest, err := os.ReadDir(base); err == nil && !isRoot(base) && slices.IndexFunc(rest, func(e fs.DirEntry) bool {
		return e.IsDir() && e.Name() != filepath.Base(leaf)
	}) < 0 {
		write(base, "cgroup.subtree_control", "-memory") // an error: the next step fails, too
	}
	vacate(leaf, base)
	remove(leaf, until)
}

// vacate moves all processes from one group to another.
func vacate(from, to string) {
	b, _ := os.ReadFile(filepath.Join(from, "cgroup.procs")) // an error: the group stays
	for line := range bytes.Lines(b) {
		write(to, "cgroup.procs", string(bytes.TrimSpace(line))) // an error: the group stays
	}
}

// leafOf returns the directory of the group that a server with a pid moves to.
func leafOf(base string, pid int) string {
	return filepath.Join(base, namePrefix+strconv.Itoa(pid))
}

// namePrefix begins the names of all groups that a server makes.
const namePrefix = "async-repl-"

// put moves a process to a group, unless it has ended.
func put(dir string, pid int) error {
	err := write(dir, "cgroup.procs", strconv.Itoa(pid))
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

// write writes one value to a file of a group.
func write(dir, name, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(value)
	return err
}

// missing reports whether a group has no such file.
func missing(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, name))
	return errors.Is(err, fs.ErrNotExist)
}
