package pystack

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// What is read of source files at most, in bytes of one file, bytes and number of all, and in
// characters of a line.
const (
	fileMax  = 1 << 20
	filesMax = 4 << 20
	openMax  = 32
	lineMax  = 200
)

// Sources are the texts that a stack may show lines of.
type Sources struct {
	Code func(file string) (text string, ok bool) // of what has no file
	Dirs []string                                 // absolute; files below them are read, and relative names begin in the first
}

// Lines returns the source line of each frame, without its indentation; empty: there is none to
// show.
func (s Sources) Lines(frames []Frame) []string {
	texts := make(map[string][]byte)
	lines := make([]string, len(frames))
	room := filesMax
	for i := len(frames) - 1; i >= 0; i-- { // from the innermost one, in case there is not room for all
		file := frames[i].File
		text, known := texts[file]
		if !known {
			if code, ok := s.Code(file); ok {
				text = []byte(code)
			} else if room > 0 && len(texts) < openMax {
				text = s.read(file, min(room, fileMax))
				room -= len(text)
			}
			texts[file] = text
		}
		lines[i] = lineOf(text, frames[i].Line)
	}
	return lines
}

// read returns the content of a file of the session's, or nil. A link that leads out of the directories
// is not followed.
func (s Sources) read(file string, limit int) []byte {
	if strings.HasPrefix(file, "<") || strings.ContainsRune(file, 0) || len(s.Dirs) == 0 {
		return nil
	}
	if !filepath.IsAbs(file) {
		file = filepath.Join(s.Dirs[0], file)
	}
	for _, dir := range s.Dirs {
		name, err := filepath.Rel(dir, file)
		if err != nil || !filepath.IsLocal(name) {
			continue
		}
		if text := readBelow(dir, name, limit); text != nil {
			return text
		}
	}
	return nil
}

// readBelow returns the content of a regular file below dir of at most limit bytes, or nil.
func readBelow(dir, name string, limit int) []byte {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil
	}
	defer root.Close()
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO would block
	if err != nil {
		return nil
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() || st.Size() > int64(limit) {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(f, int64(limit)))
	if err != nil {
		return nil
	}
	return text
}

// lineOf returns a line of a text, counted from 1, as the compiler counts them.
func lineOf(text []byte, n int) string {
	if bytes.IndexByte(text, '\r') >= 0 {
		text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
		text = bytes.ReplaceAll(text, []byte("\r"), []byte("\n"))
	}
	for line := range bytes.Lines(text) {
		if n--; n == 0 {
			return shorten(strings.ToValidUTF8(string(bytes.TrimSpace(line)), "�"))
		}
	}
	return ""
}

// shorten cuts a line that is longer than lineMax characters.
func shorten(line string) string {
	if runes := []rune(line); len(runes) > lineMax {
		return string(runes[:lineMax]) + "…"
	}
	return line
}
