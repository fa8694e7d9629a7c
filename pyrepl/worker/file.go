package worker

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"strings"
	"syscall"
	"unicode"
)

// A File is a script or a notebook, and what it finds in sys.argv[1:].
type File struct {
	Path string // a relative one starts in the session's directory
	Args []string
}

// String returns the path and the arguments as words of a shell, in the form that Python's shlex
// reads (https://docs.python.org/3/library/shlex.html).
func (f File) String() string {
	words := append([]string{f.Path}, f.Args...)
	for i, word := range words {
		if word == "" || strings.ContainsFunc(word, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(`"'\;`, r) }) {
			words[i] = `"` + quoted.Replace(word) + `"`
		}
	}
	return strings.Join(words, " ")
}

var quoted = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// fileMax is the most bytes of a file that a worker runs, see scripts.py.
const fileMax = 16 << 20

// FileHash returns a hash of the content of the file at path. It returns "" if a worker would not
// run that file. O_NONBLOCK keeps it from waiting for the writer of a named pipe
// (https://man7.org/linux/man-pages/man7/fifo.7.html).
func FileHash(path string) string {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
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
