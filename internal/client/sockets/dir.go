//go:build unix

package sockets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/kernel/descriptor"
)

// Another user must neither read what goes over a socket nor put one in its place. Therefore the
// directory of the sockets is ours, has the mode 0700 and is no link, and no other user can replace
// it: the directory above it is ours alone, or it is sticky as /tmp is. The directory is opened
// once and used by its descriptor from then on. That makes long paths possible, too: a socket's
// address has only 108 bytes.

// Places returns the paths that the directory of the sockets can have, the best one first. runtime
// is the value of XDG_RUNTIME_DIR, or empty, and temp is the directory for temporary files.
func Places(runtime, temp string) []string {
	var places []string
	if filepath.IsAbs(runtime) {
		places = append(places, filepath.Join(runtime, "async-repl"))
	}
	if filepath.IsAbs(temp) {
		places = append(places, filepath.Join(temp, fmt.Sprintf("async-repl-%d", os.Getuid())))
	}
	return places
}

// A Dir is the directory of the sockets.
type Dir struct {
	path string
	file *os.File
}

// OpenFirst opens the first of places that can be used. The error names what each of them lacks.
func OpenFirst(places []string) (*Dir, error) {
	if len(places) == 0 {
		return nil, errors.New("no directory for sockets is known: set XDG_RUNTIME_DIR to an absolute path")
	}
	var lacks []string
	for _, path := range places {
		d, err := Open(path)
		if err == nil {
			return d, nil
		}
		lacks = append(lacks, err.Error())
	}
	return nil, errors.New(strings.Join(lacks, "; "))
}

// OpenAll opens those of places that exist: clients and shells can have other variables, so that
// each makes its engine listen in another place. The errors say why others can't be used.
func OpenAll(places []string) (dirs []*Dir, errs []error) {
	for _, path := range places {
		if _, err := os.Lstat(path); err != nil {
			continue // no engine has made it
		}
		if d, err := Open(path); err == nil {
			dirs = append(dirs, d)
		} else {
			errs = append(errs, err)
		}
	}
	return dirs, errs
}

// Open checks the directory of the sockets, makes it if it is missing, and opens it.
func Open(path string) (*Dir, error) {
	above, err := os.OpenFile(filepath.Dir(path), os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("opening the directory of the sockets: %w", err)
	}
	defer above.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(above.Fd()), &st); err != nil {
		return nil, fmt.Errorf("checking %s: %w", above.Name(), err)
	}
	uid := uint32(os.Getuid())
	ours := st.Uid == uid && st.Mode&0o022 == 0
	sticky := st.Mode&unix.S_ISVTX != 0 && (st.Uid == uid || st.Uid == 0)
	if !ours && !sticky {
		return nil, fmt.Errorf("%s can be changed by other users, so it can't hold the directory of the sockets: set XDG_RUNTIME_DIR, or TMPDIR at a place, to a directory that is yours alone", above.Name())
	}
	name := filepath.Base(path)
	if err := unix.Mkdirat(int(above.Fd()), name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("making %s: %w", path, err)
	}
	fd, err := unix.Openat(int(above.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("%s is a file or a link, and should be a directory for sockets: remove it", path)
	}
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	d := &Dir{path: path, file: os.NewFile(uintptr(fd), path)}
	if err = unix.Fstat(fd, &st); err == nil && (st.Uid != uid || st.Mode&0o777 != 0o700) {
		err = fmt.Errorf("%s belongs to user %d with mode %o, and should be yours with mode 700: remove it, or change its mode", path, st.Uid, st.Mode&0o777)
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// Path returns the path of the directory.
func (d *Dir) Path() string { return d.path }

// Close closes the directory. Listeners and connections stay open.
func (d *Dir) Close() error { return d.file.Close() }

// A Name is the name of an engine's socket.
type Name struct {
	Identity string
	PID      int
}

func (n Name) String() string { return fmt.Sprintf("%s-%d", n.Identity, n.PID) }

func parseName(s string) (Name, bool) {
	identity, number, _ := strings.Cut(s, "-")
	pid, err := strconv.Atoi(number)
	n := Name{identity, pid}
	return n, err == nil && pid > 0 && len(identity) == identityLen && n.String() == s
}

// Names returns the names in the directory, those of the engines whose client left last first.
func (d *Dir) Names() ([]Name, error) {
	entries, err := os.ReadDir(d.At("."))
	if err != nil {
		return nil, err
	}
	var names []Name
	left := make(map[Name]time.Time)
	for _, e := range entries {
		info, err := e.Info()
		if n, ok := parseName(e.Name()); ok && err == nil {
			names, left[n] = append(names, n), info.ModTime()
		}
	}
	slices.SortFunc(names, func(a, b Name) int {
		return cmp.Or(left[b].Compare(left[a]), cmp.Compare(b.PID, a.PID))
	})
	return names, nil
}

// Dial connects to an engine and says hello. The error is ErrGone if the engine has ended, and the
// name is then removed; see [Conn.Greet] for the others. Dial takes at most HelloTime.
func (d *Dir) Dial(ctx context.Context, name Name, h Hello) (*Conn, Welcome, error) {
	ctx, cancel := context.WithTimeout(ctx, HelloTime)
	defer cancel()
	c, err := d.connect(ctx, name)
	if err != nil {
		return nil, Welcome{}, err
	}
	var w Welcome
	if err = ownPeer(c.UnixConn); err == nil {
		w, err = c.Greet(ctx, h, HelloTime)
	}
	if err != nil {
		c.Close()
		return nil, w, err
	}
	return c, w, nil
}

// connect connects to an engine, and removes the name of one that has ended.
func (d *Dir) connect(ctx context.Context, name Name) (*Conn, error) {
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "unix", d.At(name.String()))
	switch {
	case errors.Is(err, unix.ECONNREFUSED):
		d.remove(name.String())
		return nil, ErrGone
	case errors.Is(err, fs.ErrNotExist):
		return nil, ErrGone
	case err != nil:
		return nil, fmt.Errorf("connecting to the engine of process %d: %w", name.PID, err)
	}
	return newConn(c.(*net.UnixConn)), nil
}

// remove removes a name. It does nothing if there is none, or if the directory is closed.
func (d *Dir) remove(name string) {
	descriptor.Use(d.file, func(fd int) error { return unix.Unlinkat(fd, name, 0) })
}

// A Listener accepts connections at a socket with a name.
type Listener struct {
	dir  *Dir
	name Name
	l    *net.UnixListener
}

// unfinished is the suffix of a name at which no process listens yet.
const unfinished = ".new"

// Listen listens at the name of this process. The file of a socket exists before its process
// listens, and a process that connects in that instant would take this one for dead. So the socket
// gets its name by rename.
func (d *Dir) Listen(identity string) (*Listener, error) {
	d.sweep()
	l := &Listener{dir: d, name: Name{identity, os.Getpid()}}
	first := l.name.String() + unfinished
	d.remove(first) // a process with our number was killed
	var err error
	if l.l, err = net.ListenUnix("unix", &net.UnixAddr{Name: d.At(first), Net: "unix"}); err == nil {
		l.l.SetUnlinkOnClose(false)
		if err = os.Rename(d.At(first), d.At(l.name.String())); err != nil {
			l.l.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("listening in %s: %w", d.path, err)
	}
	return l, nil
}

// sweep removes the names that killed processes have left, so that they don't pile up. A name at
// which no process listens yet is there for less than a millisecond.
func (d *Dir) sweep() {
	entries, _ := os.ReadDir(d.At("."))
	for _, e := range entries {
		name, isNew := strings.CutSuffix(e.Name(), unfinished)
		n, ok := parseName(name)
		if !ok || unix.Kill(n.PID, 0) != unix.ESRCH {
			continue
		}
		if info, err := e.Info(); isNew && err == nil && time.Since(info.ModTime()) > time.Minute {
			d.remove(e.Name())
		} else if c, err := d.connect(context.Background(), n); err == nil { // its process is in another container
			c.Close()
		}
	}
}

// Name returns the name of the socket.
func (l *Listener) Name() Name { return l.name }

// Touch notes that the client has left now, see [Dir.Names].
func (l *Listener) Touch() {
	now := time.Now()
	os.Chtimes(l.dir.At(l.name.String()), now, now)
}

// Found reports whether the name is where others look for it. Systems remove the directories of
// users that have logged out, and old files from directories for temporary ones.
func (l *Listener) Found() bool {
	_, err := os.Lstat(filepath.Join(l.dir.path, l.name.String()))
	return err == nil
}

// Accept returns the next connection of a process of our user in our namespaces.
func (l *Listener) Accept() (*Conn, error) {
	for {
		c, err := l.l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		conn := newConn(c)
		if err := ownPeer(c); err != nil {
			conn.Refuse(err.Error())
			c.Close()
			continue
		}
		return conn, nil
	}
}

// Close removes the name, so that no process connects any more, and stops to listen. It can be
// called several times.
func (l *Listener) Close() error {
	l.dir.remove(l.name.String())
	return l.l.Close()
}
