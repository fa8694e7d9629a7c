package sandbox

import (
	"path/filepath"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/text/view"
)

// sealOf returns the seal of what is at a path. The error is ELOOP if that is a link: it can have the inode of
// a file that it has replaced.
func sealOf(path string, readOnly bool) (Seal, error) {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		err = unix.ELOOP
	}
	return Seal{Path: path, Device: uint64(st.Dev), Inode: st.Ino, ReadOnly: readOnly}, err
}

// Broken returns the paths of seals that do not hold: something else is there than was checked, or it can
// be written. The kernel drops a mount when a program outside replaces its file by rename
// (https://man7.org/linux/man-pages/man7/mount_namespaces.7.html), so a seal can break at any time.
func Broken(seals []Seal) (paths []string) {
	for _, s := range seals {
		if !s.holds() {
			paths = append(paths, s.Path)
		}
	}
	return paths
}

func (s Seal) holds() bool {
	got, err := sealOf(s.Path, s.ReadOnly)
	got.Hides = s.Hides
	if s.Hides && err == unix.ENOENT { // a program outside has removed it
		return true
	}
	if s.Inode == 0 {
		above, aboveErr := sealOf(filepath.Dir(s.Path), false)
		return err == nil && aboveErr == nil && got.Device != above.Device
	}
	var fs unix.Statfs_t
	if err == nil && s.ReadOnly {
		err = unix.Statfs(s.Path, &fs)
	}
	return err == nil && got == s && (!s.ReadOnly || fs.Flags&unix.ST_RDONLY != 0)
}

// pathMax bounds a path in a line, in characters.
const pathMax = 150

// Unprotected says of each path that the sandbox protects no more what jobs can do to it now. A path that they
// could write from the start is left out: what its seal holds in place has a seal of its own.
func Unprotected(seals []Seal) (lines []string) {
	for _, s := range seals {
		if !s.ReadOnly && !s.Hides || s.holds() {
			continue
		}
		can, did := "written", "replaced"
		if s.Hides {
			can = "read"
		}
		switch _, err := sealOf(s.Path, s.ReadOnly); err {
		case nil, unix.ELOOP:
		case unix.ENOENT, unix.ENOTDIR:
			if did = "removed"; s.Hides {
				continue
			}
		default: // a job can close a directory above
			continue
		}
		lines = append(lines, view.Line(s.Path, pathMax)+" can be "+can+" now: a program outside "+did+" it; restart the server to protect it again")
	}
	return lines
}
