package pystack

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
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
	// Code returns the text of code that has no file.
	Code func(file string) (text string, ok bool)

	// Dirs are absolute paths. Files below them are read, and relative names begin in the first.
	Dirs []string

	// A file that has changed since is not what runs, nor is one that Python has imported as it was
	// before: their lines are not shown.
	Since time.Time // zero: always
	Tag   string    // cache_tag of the interpreter, such as cpython-311; empty: unknown
}

// Lines returns the source line of each frame, without its indentation, or "" if it has no line to
// show.
func (s Sources) Lines(frames []Frame) []string {
	texts := make(map[string][]byte)
	lines := make([]string, len(frames))
	room := filesMax
	for i := len(frames) - 1; i >= 0; i-- { // innermost first, in case there is not room for all
		file := frames[i].File
		text, known := texts[file]
		if !known {
			if code, ok := s.Code(file); ok {
				text = []byte(code)
			} else if room > 0 && len(texts) < openMax {
				var read int
				text, read = s.text(file, room)
				room -= read
			}
			texts[file] = text
		}
		lines[i] = shorten(strings.ToValidUTF8(string(bytes.TrimSpace(lineOf(text, frames[i].Line))), "�"))
	}
	return lines
}

// Called returns the function that a frame calls, as its source names it: "np.linalg.svd". It returns
// "" if the frame does something else, if the function has no such name, or if the source is not
// known.
func (s Sources) Called(f Frame) string {
	at := f.Span
	if at == (Span{}) || at.EndLine < at.Line || at.EndLine-at.Line > callLines {
		return ""
	}
	var text []byte
	if code, ok := s.Code(f.File); ok {
		text = []byte(code)
	} else {
		text, _ = s.text(f.File, filesMax)
	}
	line := lineOf(text, at.Line)
	if at.Column > len(line) || at.Line == at.EndLine && at.EndColumn > len(line) || notCalled().Match(line[:at.Column]) {
		return ""
	}
	var call []byte
	if at.Line == at.EndLine {
		call = line[at.Column:at.EndColumn]
	} else {
		call = append(call, line[at.Column:]...)
		for n := at.Line + 1; n < at.EndLine; n++ {
			call = append(call, lineOf(text, n)...)
		}
		last := lineOf(text, at.EndLine)
		call = append(call, last[:min(at.EndColumn, len(last))]...)
	}
	name := calledName().Find(call)
	if name == nil || !closes(call[len(name):]) {
		return ""
	}
	return shorten(strings.TrimRight(string(name), "( "))
}

// callLines bounds the lines of a call whose function Called names.
const callLines = 100

var (
	calledName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*[ ]*\(`) })

	// notCalled matches what stands before an expression whose instruction can be another one than its
	// call: the step of a loop, the begin or end of a with, an await. After a dot the name is not whole.
	notCalled = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?:\b(?:in|await|from)|[@.])\s*$|^\s*(?:async\s+)?with\b`)
	})
)

// closes reports whether the parenthesis before text is closed by the last character of text.
func closes(text []byte) bool {
	depth := 1
	var quote byte
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quote != 0:
			if c == '\\' {
				i++
			} else if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '#':
			if end := bytes.IndexByte(text[i:], '\n'); end >= 0 {
				i += end
			}
		case c == '(':
			depth++
		case c == ')':
			if depth--; depth == 0 {
				return i == len(text)-1
			}
		}
	}
	return false
}

// cell matches what Python knows the code of a notebook's cell by, see scripts.py.
var cell = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(.+\.ipynb), cell (\d+)$`) })

// text returns the code in a file, or in a cell of a notebook, and how much it has read for that,
// at most room.
func (s Sources) text(file string, room int) (text []byte, read int) {
	m := cell().FindStringSubmatch(file)
	if m == nil {
		text = s.read(file, min(room, fileMax))
		return text, len(text)
	}
	raw := s.read(m[1], room) // it has pictures too
	var book struct{ Cells []struct{ Source any } }
	n, err := strconv.Atoi(m[2])
	if err != nil || json.Unmarshal(raw, &book) != nil || n < 1 || n > len(book.Cells) {
		return nil, len(raw)
	}
	source, _ := book.Cells[n-1].Source.([]any) // Source is a list of lines, or one text
	for _, line := range append(source, book.Cells[n-1].Source) {
		if line, ok := line.(string); ok {
			text = append(text, line...)
		}
	}
	return text, len(raw)
}

// read returns the content of a file of the session's, or nil. A link that leads out of the
// directories is not followed.
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
		if text := s.readBelow(dir, name, limit); text != nil {
			return text
		}
	}
	return nil
}

// readBelow returns the content of a file below dir of at most limit bytes, or nil.
func (s Sources) readBelow(dir, name string, limit int) []byte {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil
	}
	defer root.Close()
	f, st, err := openRegular(root, name)
	if err != nil {
		return nil
	}
	defer f.Close()
	if st.Size() > int64(limit) || !s.Since.IsZero() && st.ModTime().After(s.Since) || s.importedBefore(root, name, st) {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(f, int64(limit)))
	if err != nil {
		return nil
	}
	return text
}

// openRegular opens a regular file.
func openRegular(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO would block
	if err != nil {
		return nil, nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fs.ErrInvalid
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, st, nil
}

// importedBefore reports whether Python last imported a module before its file was changed. Its
// cache begins with a magic number, flags, and the time and size of the file then: see
// https://peps.python.org/pep-0552/.
func (s Sources) importedBefore(root *os.Root, name string, st fs.FileInfo) bool {
	module, ok := strings.CutSuffix(filepath.Base(name), ".py")
	if !ok || s.Tag == "" {
		return false
	}
	f, _, err := openRegular(root, filepath.Join(filepath.Dir(name), "__pycache__", module+"."+s.Tag+".pyc"))
	if err != nil {
		return false // it was not imported, or is not cached
	}
	defer f.Close()
	var head [4]uint32
	if binary.Read(f, binary.LittleEndian, &head) != nil || head[1] != 0 { // 0: it has the time
		return false
	}
	return head[2] != uint32(st.ModTime().Unix()) || head[3] != uint32(st.Size())
}

// lineOf returns a line of a text, counted from 1, as the compiler counts them.
func lineOf(text []byte, n int) []byte {
	if bytes.IndexByte(text, '\r') >= 0 {
		text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
		text = bytes.ReplaceAll(text, []byte("\r"), []byte("\n"))
	}
	for line := range bytes.Lines(text) {
		if n--; n == 0 {
			return line
		}
	}
	return nil
}

// shorten cuts a line that is longer than lineMax characters.
func shorten(line string) string {
	if runes := []rune(line); len(runes) > lineMax {
		return string(runes[:lineMax]) + "…"
	}
	return line
}
