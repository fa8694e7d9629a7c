package procfs

import (
	"errors"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// readFile reads a file of /proc into buf, which grows if need be.
func readFile(path string, buf []byte) ([]byte, error) { return readReserved(path, buf, 0) }

// ReadAtMost reads at most limit bytes of a file of /proc. If it returns that many there may be
// more.
func ReadAtMost(path string, limit int) ([]byte, error) { return readReserved(path, nil, limit) }

// ReadStart makes a single read of a file of /proc into buf. If buf is large enough, it holds all
// of a file that the kernel writes in one piece, such as stat. The read that would find the end is
// saved.
func ReadStart(path string, buf []byte) ([]byte, error) { return readReserved(path, buf, once) }

// once as a limit means one read.
const once = -1

func readReserved(path string, buf []byte, limit int) ([]byte, error) {
	fillReserve()
	b, err := read(path, buf, limit)
	if exhausted(err) {
		return readAgain(path, limit) // a separate function keeps b and err off the heap here
	}
	return b, err
}

func readAgain(path string, limit int) (b []byte, err error) {
	err = WithReserve(func() error {
		b, err = read(path, make([]byte, 4096), limit)
		return err
	})
	return b, err
}

// read reads up to limit bytes, or everything if limit is 0. It makes three or four system calls,
// os.ReadFile more.
func read(path string, buf []byte, limit int) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, failed("open", path, err)
	}
	defer unix.Close(fd)
	buf = buf[:0]
	for {
		if len(buf) == cap(buf) {
			buf = append(buf, make([]byte, max(512, cap(buf)))...)[:len(buf)]
		}
		n, err := unix.Read(fd, buf[len(buf):cap(buf)])
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return nil, failed("read", path, err)
		}
		buf = buf[:len(buf)+n]
		switch {
		case n == 0 || limit == once:
			return buf, nil
		case limit > 0 && len(buf) >= limit:
			return buf[:limit], nil
		}
	}
}

// errNoProc means that /proc shows no processes, or the processes of another pid namespace.
var errNoProc = errors.New("/proc does not show this system's processes: another mount covers it, or none is there")

// failed is the error of an operation on a file of /proc. A missing file means that its process is
// gone, but only if /proc shows our own.
func failed(op, path string, err error) error {
	if err == unix.ESRCH || err == unix.ENOENT && showsUs() {
		return ErrGone
	}
	if err == unix.ENOENT {
		err = errNoProc
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}

// showsUs reports whether /proc shows the pid namespace that we are in.
func showsUs() bool {
	var buf [16]byte
	n, err := unix.Readlink("/proc/self", buf[:])
	return err == nil && string(buf[:n]) == strconv.Itoa(os.Getpid())
}
