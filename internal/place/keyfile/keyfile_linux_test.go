package keyfile_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/place/keyfile"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
	"asyncrepl/internal/test/nstest"
)

func init() {
	parts["full-disk"] = fullDisk
	parts["without-locks"] = func(dir string) error {
		if err := forbidLocks(); err != nil {
			return err
		}
		return parts["serve"](dir)
	}
}

// A server whose file system has no locks has a file, which no other takes over: it can't be known whether
// the server lives. Nor does it take over the file of another.
func TestWithoutLocksNothingIsTakenOver(t *testing.T) {
	dir := t.TempDir()
	killed := start(t, "serve", dir)
	killed.kill()
	unlocked := start(t, "without-locks", dir)
	if unlocked.key == killed.key || unlocked.found != 0 {
		t.Error("a file was taken over without its lock")
	}
	if names := strings.Join(files(t, dir), " "); strings.Contains(names, unlocked.key+".lock") || !strings.Contains(names, unlocked.key+".json") {
		t.Errorf("there are %s, and the key without a lock is %s", names, unlocked.key)
	}
	first, second := takeOver(t, dir, "/work", "/places.json"), takeOver(t, dir, "/work", "/places.json")
	if first.Key() != killed.key || second.Key() == unlocked.key {
		t.Errorf("taken over: %s, %s; %s has no lock, and its server lives", first.Key(), second.Key(), unlocked.key)
	}
}

// forbidLocks makes fcntl fail with ENOLCK in this process when it is asked for a lock, as it does on file
// systems without locks.
func forbidLocks() error {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	const nr, secondArgument = 0, 24 // offsets in struct seccomp_data, of the low half of a word if it has two
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	unless := func(value uint32, skip uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: value, Jf: skip}
	}
	answer := func(value uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: value} }
	filter := []unix.SockFilter{
		load(nr), unless(unix.SYS_FCNTL, 3),
		load(secondArgument), unless(unix.F_SETLK, 1),
		answer(unix.SECCOMP_RET_ERRNO | uint32(unix.ENOLCK)),
		answer(unix.SECCOMP_RET_ALLOW),
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return fmt.Errorf("forbidding locks: %w", errno)
	}
	return nil
}

// On a full disk a change is an error, the file stays as it was, and the next change writes both.
func TestFullDisk(t *testing.T) {
	child := exec.Command(must.Get(os.Executable())(t), "full-disk", t.TempDir())
	nstest.Isolate(child, 0)
	out, err := child.CombinedOutput()
	if err != nil && (errors.Is(err, syscall.EPERM) || strings.HasPrefix(string(out), "mounting")) {
		needtest.Right(t, "mount a disk", err, out)
	} else if err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

// fullDisk changes a file on a disk of its own before it is full, while it is and after that.
func fullDisk(disk string) error {
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=256k,mode=700"); err != nil {
		return fmt.Errorf("mounting a disk: %w", err)
	}
	dir := filepath.Join(disk, "places")
	f, err := keyfile.New(dir, "/w", "/p")
	if err != nil {
		return err
	}
	if err := f.Set("before", full); err != nil {
		return err
	}
	filler := filepath.Join(disk, "filler")
	if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("the disk is not full: %v", err)
	}
	path := filepath.Join(dir, f.Key()+".json")
	before, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for range 3 {
		if err := f.Set("meanwhile", full); !errors.Is(err, syscall.ENOSPC) {
			return fmt.Errorf("the full disk is reported as %v", err)
		}
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		return fmt.Errorf("the file has changed: %v, %q", err, after)
	}
	if _, err := keyfile.New(dir, "/w", "/p"); !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("a new file on the full disk: %v", err)
	}
	if names, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(names) != 2 {
		return fmt.Errorf("the directory has %q, %v", names, err)
	}
	if err := os.Remove(filler); err != nil {
		return err
	}
	if err := f.Set("after", full); err != nil {
		return fmt.Errorf("with room again: %w", err)
	}
	if err := f.Close(false); err != nil {
		return err
	}
	f, err = keyfile.TakeOver(dir, "/w", "/p")
	if err != nil {
		return err
	}
	want := map[string]keyfile.Engine{"before": full, "meanwhile": full, "after": full}
	if got := f.Engines(); !reflect.DeepEqual(got, want) {
		return fmt.Errorf("the engines are %+v", got)
	}
	return f.Close(true)
}
