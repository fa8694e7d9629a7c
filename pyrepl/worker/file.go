package worker

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"syscall"
)

// fileMax is the most bytes of a file that a worker runs, see scripts.py.
const fileMax = 16 << 20

// FileHash returns a hash of the content of a file that a worker runs, or "" if it runs none there.
func FileHash(path string) string {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // which waits for no writer
	if err != nil {
		return ""
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return ""
	}
	h := sha256.New()
	if n, err := io.Copy(h, io.LimitReader(f, fileMax+1)); err != nil || n > fileMax {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))
}
