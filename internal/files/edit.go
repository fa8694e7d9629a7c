//go:build unix

package files

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// EditMax bounds the size of a file that Edit changes, in bytes. Edit holds the file in memory.
const EditMax = 16 << 20

var errEditMax = fmt.Errorf("%w: files of up to %d MiB can be edited", ErrTooLarge, EditMax>>20)

// A MatchError says that a text was not found, or too often.
type MatchError struct {
	Lines []int  // the lines in which the text begins; empty: it was not found
	Most  int    // how often the text can occur
	Hint  string // continues the error: why the text was not found
}

// Error returns the text of the error.
func (e *MatchError) Error() string {
	if len(e.Lines) == 0 {
		return "old does not occur in the file" + e.Hint
	}
	return fmt.Sprintf("old occurs %d times, more than count=%d: in lines %s; give more of the text around it, or a count",
		len(e.Lines), e.Most, Lines(e.Lines))
}

// Lines returns line numbers as a list for a sentence. It names only the first few and counts the
// others.
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

// Edit replaces every occurrence of old in a file by new. It returns the lines in which old began.
// If old is not found or occurs more than most times, the file stays unchanged and the error is a
// [*MatchError].
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

// hint returns the end of an error, which says why old is not found if content shows it.
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
