package output

import "golang.org/x/sys/unix"

// Punch makes a hole in the file, which reads as zeros and takes no blocks. The size of the file
// stays (https://man7.org/linux/man-pages/man2/fallocate.2.html, FALLOC_FL_PUNCH_HOLE). A signal
// can interrupt the call, so Punch repeats it.
func (f diskFile) Punch(off, n int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE|unix.FALLOC_FL_PUNCH_HOLE, off, n)
		if err != unix.EINTR {
			return err
		}
	}
}
