//go:build unix

package tokens

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxSize bounds the file: at 100 bytes a line it has room for 10,000 tokens.
const maxSize = 1 << 20

// read returns the tokens in a file that only this user can read.
func read(path string) ([]entry, error) {
	// Opening a FIFO must not wait for a writer.
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ELOOP) {
		return nil, errors.New("it is a symbolic link: name the file itself")
	}
	if err != nil {
		return nil, errors.Unwrap(err) // the caller names the path
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if err := private(info); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(file, maxSize+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxSize {
		return nil, fmt.Errorf("it is larger than %d bytes", maxSize)
	}
	return parse(string(text))
}

// private returns an error if another user can have written the file or can read it.
func private(info os.FileInfo) error {
	if info.IsDir() {
		return errors.New("it is a directory: name the file")
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("it is not a regular file but %v", info.Mode().Type())
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; owner != 0 && int(owner) != os.Geteuid() {
		return fmt.Errorf("it belongs to user %d, and this server runs as user %d: change its owner", owner, os.Geteuid())
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("its mode is %#o, so that other users can use it: chmod 600 it", mode)
	}
	return nil
}

func parse(text string) ([]entry, error) {
	var entries []entry
	lines := make(map[[sha256.Size]byte]int)
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		e, err := parseLine(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if first := lines[e.hash]; first > 0 {
			return nil, fmt.Errorf("lines %d and %d have the same token", first, number)
		}
		e.line, lines[e.hash] = number, number
		entries = append(entries, e)
	}
	if len(entries) == 0 {
		return nil, errors.New("it has no token: async-repl token TENANT prints a line for it")
	}
	return entries, nil
}

// parseLine reads a line. A workspace is the rest of its line, so it can have spaces.
func parseLine(line string) (entry, error) {
	tenant, rest := word(line)
	hash, workspace := word(rest)
	e := entry{tenant: tenant}
	if err := checkTenant(tenant); err != nil {
		return e, err
	}
	raw, err := hex.DecodeString(hash)
	if err != nil || len(raw) != len(e.hash) { // the error hides the text: it may be a token
		return e, fmt.Errorf("what follows %s is not a SHA-256 of 64 hexadecimal digits", tenant)
	}
	copy(e.hash[:], raw)
	if workspace != "" {
		if !filepath.IsAbs(workspace) {
			return e, fmt.Errorf("the workspace %q is not an absolute path", workspace)
		}
		e.workspace = filepath.Clean(workspace)
	}
	return e, nil
}

// word returns the first word of a line and what follows it.
func word(line string) (first, rest string) {
	end := strings.IndexAny(line, " \t")
	if end < 0 {
		return line, ""
	}
	return line[:end], strings.TrimSpace(line[end:])
}
