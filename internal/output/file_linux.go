package output

import "syscall"

// Flags of fallocate(2) on Linux, for which the standard library has no names.
const (
	keepSize  = 0x1
	punchHole = 0x2
)

func (f namelessFile) Punch(off, n int64) error {
	for {
		err := syscall.Fallocate(int(f.Fd()), keepSize|punchHole, off, n)
		if err != syscall.EINTR {
			return err
		}
	}
}
