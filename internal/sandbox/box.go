//go:build linux

package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A Config says what a sandbox holds. All paths are absolute.
type Config struct {
	Workspace string   // the directory that jobs work in; it is read and written
	Read      []string // further paths that are read
	Write     []string // further paths that are read and written
	Programs  []string // this program and its files: they are read, and never written
	Shell     string   // the shell, which is read; "" if it belongs to the system
	Python    string   // the chosen interpreter, which is read with its environment; "" if there is none
	Hidden    []string // files that no job reads, wherever they are
	Found     []string // other interpreters and programs, which are read if they can be
	Home      string   // the home directory, which is hidden; "" if there is none
	State     string   // the state directory of servers that are not confined; it is hidden
	Identity  string   // the name of this sandbox's part of State
	Network   bool     // jobs have the network of the machine; otherwise they have only a loopback
}

// writable returns the directories that jobs write, without links. One can hold the workspace.
func (c *Config) writable() (dirs []string) {
	for _, path := range append([]string{c.Workspace}, c.Write...) {
		if real := resolved(path); real != "" {
			dirs = append(dirs, real)
		}
	}
	return dirs
}

// Find returns the path of bubblewrap in the directories of a PATH, or "". It skips what a job can have put
// there, as in the bin of an environment in the workspace: bubblewrap is started outside of the sandbox.
func (c *Config) Find(path []string) string {
	r := rooms{writable: c.writable()}
	for _, dir := range path {
		program := filepath.Join(dir, "bwrap")
		if !filepath.IsAbs(dir) || unix.Access(program, unix.X_OK) != nil {
			continue
		}
		if _, through, err := resolve(program); err == nil && !slices.ContainsFunc(through, r.isWritable) {
			return program
		}
	}
	return ""
}

// A Box is a sandbox that has been checked and can be started, once.
type Box struct {
	State  string   // the state directory inside; it has the same path outside
	Write  []string // the paths that jobs write, the workspace first, without links
	Open   []string // files that programs outside obey and that can't be protected, because they are links
	Seals  []Seal   // what the first process inside checks with [Broken]
	mounts map[string]mount
	own    held // the directory of the sandbox
	temp   held // the directory tmp/RUN in it
	share  bool
}

// A mount is what is at a path inside. Its zero value is an empty directory in memory.
type mount struct {
	option string // the option of bubblewrap that makes the mount; "" is --tmpfs
	source string // the path outside, or the target of a link
}

const (
	readOnly = "--ro-bind"
	writable = "--bind"
	link     = "--symlink"
	closed   = "--remount-ro" // an empty directory in memory in which nothing can be made
)

// Check returns the [*PathError] that [New] returns for a path of c. It makes nothing, and what the paths
// hold is left to New.
func Check(c Config) error {
	_, _, _, err := c.check()
	return err
}

// check returns the paths of c without links, the workspace first, and what they are compared with. The
// state directory can be missing.
func (c *Config) check() (r rooms, writes, reads []string, err error) {
	there, rest := c.State, ""
	for _, err := os.Lstat(there); errors.Is(err, fs.ErrNotExist) && there != "/"; _, err = os.Lstat(there) {
		there, rest = filepath.Dir(there), filepath.Join(filepath.Base(there), rest)
	}
	real, through, err := resolve(there)
	r = rooms{home: homeOf(c.Home), state: filepath.Join(real, rest), writable: c.writable()}
	if err != nil || r.leaves(real, through) != "" {
		return r, nil, nil, &PathError{Role: State, Path: c.State, Why: "can't be found, or leads through a directory that jobs write"}
	}
	for i, path := range append([]string{c.Workspace}, c.Write...) {
		role := Write
		if i == 0 {
			role = Workspace
		}
		real, err := r.check(role, path)
		if err != nil {
			return r, nil, nil, err
		}
		writes = append(writes, real)
	}
	for _, path := range c.Read {
		real, err := r.check(Read, path)
		if err != nil {
			return r, nil, nil, err
		}
		reads = append(reads, real)
	}
	return r, writes, reads, nil
}

// New checks c and makes the directory of the sandbox. The error is a [*PathError] if a path of c can't
// be used. The caller closes the Box when the sandbox has ended.
func New(c Config) (*Box, error) {
	if err := os.MkdirAll(c.State, 0o700); err != nil {
		return nil, unusable(c.State, err)
	}
	r, writes, reads, err := c.check()
	if err != nil {
		return nil, err
	}
	b := &Box{Write: writes, mounts: make(map[string]mount), share: c.Network}
	paths, writes, open := protected(writes[0])
	b.Open = open
	for _, path := range writes {
		if path, err = r.check(Write, path); err != nil {
			return nil, err
		}
		b.Write = append(b.Write, path)
		r.writable = append(r.writable, path)
	}

	// Of two mounts at one path the later one counts.
	b.addSystem(c.Network, os.Getuid() == 0)
	if r.home != "" {
		b.mounts[r.home] = mount{}
		for _, name := range tools {
			path := filepath.Join(r.home, name)
			if real, through, err := resolve(path); err == nil && r.leaves(real, through) == "" {
				b.mounts[path] = mount{readOnly, real}
			}
		}
	}
	if b.visible(r.state) {
		b.mounts[r.state] = mount{}
	}
	for _, path := range reads {
		b.mounts[path] = mount{readOnly, path}
	}
	for _, path := range b.Write {
		b.mounts[path] = mount{writable, path}
	}
	for _, path := range b.Write {
		// What jobs made beside the workspace would be lost with the sandbox, such as a worktree of git.
		if dir := filepath.Dir(path); r.home != "" && dir != r.home && under(dir, r.home) && !b.visible(dir) {
			b.mounts[dir] = mount{option: closed}
		}
	}
	for _, path := range c.Programs {
		real, through, err := resolve(path)
		if err != nil {
			return nil, fmt.Errorf("finding a program of the sandbox: %v", err)
		}
		m, ok := b.at(real)
		if ok && m.option == readOnly {
			continue // a link in the workspace can lead to what is read anyway
		}
		if from := r.leaves(real, through); from != "" {
			return nil, &PathError{Role: Program, Path: path, Why: fmt.Sprintf("leads by a link from %s, which jobs write, to %s", from, real)}
		}
		paths = append(paths, real)
	}
	b.protect(paths)
	if c.Shell != "" {
		if err := b.addRead(&r, Shell, c.Shell); err != nil {
			return nil, err
		}
	}
	for _, path := range c.Found { // first: the environment of the workspace can be made with one of them
		b.addPython(&r, path) // an error: it is not there, or a job has changed it
	}
	if c.Python != "" {
		if err := b.addPython(&r, c.Python); err != nil {
			return nil, err
		}
	}
	for _, path := range c.Hidden {
		if real := resolved(path); real != "" && b.visible(real) {
			b.mounts[real] = mount{readOnly, nothing}
		}
	}
	for _, path := range slices.Concat([]string{c.Home, c.Workspace}, c.Write, c.Read, c.Programs) {
		if filepath.IsAbs(path) { // a home can be missing
			b.alias(path)
		}
	}
	if err = b.addOwn(r.state, c.Identity, r.home); err == nil {
		err = b.seal()
	}
	if err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// at returns the mount that a path is in.
func (b *Box) at(path string) (m mount, ok bool) {
	for ; ; path = filepath.Dir(path) {
		if m, ok := b.mounts[path]; ok || path == "/" {
			return m, ok
		}
	}
}

// visible reports whether what is outside at a path without links can be seen inside.
func (b *Box) visible(path string) bool {
	m, ok := b.at(path)
	return ok && m.source != "" && m.option != link
}

// protect makes paths read-only. A directory above one that jobs write becomes a mount itself: it could be
// renamed otherwise, with the mounts in it, and another put in its place.
func (b *Box) protect(paths []string) {
	for _, path := range paths {
		for dir := filepath.Dir(path); dir != "/"; dir = filepath.Dir(dir) {
			if _, ok := b.mounts[dir]; !ok && b.visible(dir) {
				if m, _ := b.at(dir); m.option == writable {
					b.mounts[dir] = mount{writable, dir}
				}
			}
		}
	}
	for _, path := range paths {
		b.mounts[path] = mount{readOnly, path}
	}
}

// alias makes a link for a path that has links, so that it leads inside where it leads outside. There is
// none in a mount, or below such a link: the links of the path are there then.
func (b *Box) alias(path string) {
	path = filepath.Clean(path)
	m, _ := b.at(path)
	if _, taken := b.mounts[path]; taken || m.source != "" {
		return
	}
	if real := resolved(path); real != "" && real != path {
		b.mounts[path] = mount{link, real}
	}
}

// seal takes the seals of all that jobs of another sandbox can have reached, and of what hides a file.
func (b *Box) seal() error {
	for _, path := range slices.Sorted(maps.Keys(b.mounts)) {
		m := b.mounts[path]
		if m.option == "" && b.visible(filepath.Dir(path)) {
			b.Seals = append(b.Seals, Seal{Path: path, Hides: true})
			continue
		}
		written := slices.ContainsFunc(b.Write, func(w string) bool { return under(path, w) })
		if m.source != nothing && (m.source != path || !written) {
			continue
		}
		s, err := sealOf(m.source, m.option == readOnly)
		if err != nil {
			return fmt.Errorf("checking what is mounted: %v", err)
		}
		s.Path, s.Hides = path, m.source == nothing
		b.Seals = append(b.Seals, s)
	}
	return nil
}

// Args returns the arguments of bubblewrap up to the program, which begins with its path inside. Dir is the
// current directory of the program, and filter the descriptor that [Filter] can be read from.
func (b *Box) Args(dir string, filter int, program ...string) []string {
	args := []string{"--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--cap-drop", "ALL", "--die-with-parent"}
	if !b.share {
		args = append(args, "--unshare-net")
	}
	paths := slices.SortedFunc(maps.Keys(b.mounts), func(x, y string) int { // a directory comes before what is in it
		return cmp.Compare(strings.ReplaceAll(x, "/", "\x00"), strings.ReplaceAll(y, "/", "\x00"))
	})
	var last []string
	for _, path := range paths {
		switch m := b.mounts[path]; m.option {
		case "":
			args = append(args, "--tmpfs", path)
		case closed:
			args, last = append(args, "--tmpfs", path), append(last, closed, path)
		case "--proc", "--dev":
			args = append(args, m.option, path)
		default:
			args = append(args, m.option, m.source, path)
		}
	}
	args = append(append(args, last...), closed, "/", "--seccomp", strconv.Itoa(filter), "--chdir", dir, "--")
	return append(args, program...)
}
