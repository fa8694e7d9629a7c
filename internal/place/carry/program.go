package carry

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// A program is a file that can be brought to a place.
type program struct {
	size   int64
	hash   string
	system string // a shell pattern that matches the output of uname -sm on systems that run the program
}

// hashes keeps the hash of each program. Without it, each attempt to reach one of 50 places would read 40 MB.
var hashes = struct {
	sync.Mutex // also held while a file is read, so that several attempts at once read it once
	known      map[fileState]program
}{known: make(map[fileState]program)}

// A fileState changes if the content of a file does.
type fileState struct {
	path    string
	size    int64
	changed time.Time
}

// open opens the program at path and says what it is. An empty path means the program that runs, even if
// another version has taken the place of its file meanwhile.
func open(path string) (*os.File, program, error) {
	var p program
	if path == "" {
		path = "/proc/self/exe"
		if _, err := os.Stat(path); err != nil {
			if path, err = os.Executable(); err != nil {
				return nil, p, err
			}
		}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, p, err
	}
	if p, err = inspect(f); err != nil {
		f.Close()
		return nil, p, err
	}
	return f, p, nil
}

func inspect(f *os.File) (program, error) {
	st, err := f.Stat()
	if err != nil {
		return program{}, err
	}
	if !st.Mode().IsRegular() || st.Size() == 0 {
		return program{}, fmt.Errorf("%q is not a file with a program", f.Name())
	}
	state := fileState{f.Name(), st.Size(), st.ModTime()}
	hashes.Lock()
	defer hashes.Unlock()
	if p, ok := hashes.known[state]; ok {
		return p, nil
	}
	head := make([]byte, min(64, st.Size()))
	if _, err := f.ReadAt(head, 0); err != nil {
		return program{}, err
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, st.Size())); err != nil {
		return program{}, err
	}
	p := program{st.Size(), hex.EncodeToString(h.Sum(nil)), systemOf(head)}
	hashes.known[state] = p
	return p, nil
}

// systemOf returns the pattern for the systems that run a program, by its first bytes. A program that is not
// known to be for one system is tried on each.
func systemOf(head []byte) string {
	const elfAMD64, elfARM64, machAMD64, machARM64 = 62, 183, 0x01000007, 0x0100000c
	switch {
	case len(head) < 20:
	case bytes.HasPrefix(head, []byte("\x7fELF\x02\x01")):
		switch binary.LittleEndian.Uint16(head[18:]) {
		case elfAMD64:
			return "Linux\\ x86_64"
		case elfARM64:
			return "Linux\\ aarch64"
		}
	case bytes.HasPrefix(head, []byte("\xcf\xfa\xed\xfe")):
		switch binary.LittleEndian.Uint32(head[4:]) {
		case machAMD64:
			return "Darwin\\ *" // Rosetta translates it on the others
		case machARM64:
			return "Darwin\\ arm64"
		}
	}
	return "*"
}
