//go:build unix

package files

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// EditMax bounds the files that Edit changes, which it holds in memory.
const EditMax = 16 << 20

var errEditMax = fmt.Errorf("%w: files of up to %d MiB can be edited", ErrTooLarge, EditMax>>20)

// A MatchError says that a text was not found, or too often.
type MatchError struct {
	Lines []int  // in which it begins
	Most  int    // how often it may occur
	Hint  string // why it is not found
}

// Error returns the text of the error.
func (e *MatchError) Error() string {
	if len(e.Lines) == 0 {
		return "old does not occur in the file" + e.Hint
	}
	return fmt.Sprintf("old occurs %d times, more than count=%d: in lines %s; give more of the text around it, or a count",
		len(e.Lines), e.Most, Lines(e.Lines))
}

// Lines returns a list of line numbers in words, of which a few are enough.
func Lines(numbers []int) string {
	const most = 20
	var b strings.Builder
	for i, n := range numbers {
		if i == most {
			fmt.Fprintf(&b, " and %d more", len(numbers)-most)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%d", n)
	}
	return b.String()
}

// Edit replaces a text of a file by another, wherever it occurs, which is most times or fewer. It
// returns the lines in which the text began. The error for a text that is not found or occurs more
// often is a [*MatchError].
func (d *Dir) Edit(path, old, new string, most int) (lines []int, err error) {
	const doing = "editing"
	before, version, err := d.content(path)
	if err != nil {
		return nil, failed(doing, path, err)
	}
	lines = occurrences(before, []byte(old))
	if len(lines) == 0 || len(lines) > most {
		return nil, failed(doing, path, &MatchError{Lines: lines, Most: most, Hint: hint(before, old)})
	}
	if added := int64(len(lines)) * int64(len(new)-len(old)); int64(len(before))+added > EditMax {
		return nil, failed(doing, path, errEditMax)
	}
	after := bytes.ReplaceAll(before, []byte(old), []byte(new))
	_, err = d.write(doing, path, Write{
		Content: bytes.NewReader(after),
		Limit:   EditMax,
		Check: func(now fs.FileInfo) error {
			if now == nil || Version(now) != version {
				return ErrChanged
			}
			return nil
		},
	})
	return lines, err
}

// content returns the content and the version of a file that can be edited.
func (d *Dir) content(path string) (content []byte, version string, err error) {
	root, name, err := d.enter(path)
	if err != nil {
		return nil, "", err
	}
	defer root.Close()
	f, err := open(root, name)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	if f.Info.Size() > EditMax {
		return nil, "", errEditMax
	}
	content, err = io.ReadAll(io.LimitReader(f, EditMax+1))
	if err == nil && len(content) > EditMax {
		err = errEditMax
	}
	return content, Version(f.Info), err
}

// occurrences returns the lines in which old begins.
func occurrences(content, old []byte) (lines []int) {
	for at, line := 0, 1; ; {
		i := bytes.Index(content[at:], old)
		if i < 0 {
			return lines
		}
		line += bytes.Count(content[at:at+i], []byte("\n"))
		lines = append(lines, line)
		line += bytes.Count(old, []byte("\n"))
		at += i + len(old)
	}
}

// hint says why old is not found, if that can be told.
func hint(content []byte, old string) string {
	if strings.Contains(old, "\n") && bytes.Contains(bytes.ReplaceAll(content, []byte("\r\n"), []byte("\n")), []byte(old)) {
		return `: its lines end in \r\n`
	}
	first, _, more := strings.Cut(strings.TrimLeft(old, "\n"), "\n")
	if more && strings.TrimSpace(first) != "" {
		if lines := occurrences(content, []byte(first)); len(lines) > 0 {
			return fmt.Sprintf(", but its first line does, in lines %s", Lines(lines))
		}
	}
	return ": read the file for its exact text, blanks included"
}
