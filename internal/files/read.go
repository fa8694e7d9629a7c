//go:build unix

package files

import (
	"errors"
	"io"
	"unicode/utf8"
)

// A Part is a part of a file.
type Part struct {
	Data []byte
	From int64 // where the part begins in the file
	Size int64 // the size of the file
}

// Next returns where the part after this one begins.
func (p *Part) Next() int64 { return p.From + int64(len(p.Data)) }

// Text reports whether the part is UTF-8. A part can begin and end within a character: if the rest
// is UTF-8, Text moves the bounds of the part to the bounds of characters.
func (p *Part) Text() bool {
	data, skip := p.Data, 0
	for p.From > 0 && skip < len(data) && skip < utf8.UTFMax-1 && !utf8.RuneStart(data[skip]) {
		skip++
	}
	data = data[skip:]
	if p.Next() < p.Size {
		data = whole(data)
	}
	if !utf8.Valid(data) || len(data) == 0 && len(p.Data) > 0 {
		return false
	}
	p.Data, p.From = data, p.From+int64(skip)
	return true
}

// Cut limits a part that is text to a number of characters.
func (p *Part) Cut(chars int) {
	at := 0
	for at < len(p.Data) && chars > 0 {
		_, n := utf8.DecodeRune(p.Data[at:])
		at, chars = at+n, chars-1
	}
	p.Data = p.Data[:at]
}

// whole returns data without an incomplete character at its end.
func whole(data []byte) []byte {
	for back := 1; back < utf8.UTFMax && back <= len(data); back++ {
		if b := data[len(data)-back]; utf8.RuneStart(b) {
			if !utf8.FullRune(data[len(data)-back:]) {
				return data[:len(data)-back]
			}
			break
		}
	}
	return data
}

// Read reads at most n bytes of a file from an offset on. An offset beyond the end is an empty
// part.
func (d *Dir) Read(path string, offset, n int64) (*Part, error) {
	f, err := d.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size := f.Info.Size()
	buf := make([]byte, max(0, min(n, size-offset)))
	got, err := f.ReadAt(buf, offset)
	if err != nil && !errors.Is(err, io.EOF) { // the file can have become shorter
		return nil, failed("reading", path, err)
	}
	return &Part{Data: buf[:got], From: offset, Size: size}, nil
}
