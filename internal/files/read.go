//go:build unix

package files

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// oddShare is the largest share of control characters and of bytes that are not UTF-8 in a text.
const oddShare = 0.3

// A Part is a part of a file.
type Part struct {
	Data []byte
	From int64 // where the part begins in the file
	Size int64 // the size of the file

	before []byte // the bytes before the part, as many as can begin its first character
}

// Next returns where the part after this one begins.
func (p *Part) Next() int64 { return p.From + int64(len(p.Data)) }

// Text reports whether the part is text: UTF-8, or damaged or in another encoding, as Latin-1 is. A part
// can begin and end within a character: if the rest is UTF-8, Text moves the bounds of the part to the
// bounds of characters.
func (p *Part) Text() bool {
	skip := p.split()
	data := p.Data[skip:]
	if p.Next() < p.Size {
		data = whole(data)
	}
	if utf8.Valid(data) && (len(data) > 0 || len(p.Data) == 0) {
		p.Data, p.From = data, p.From+int64(skip)
		return true
	}
	return p.mostlyText()
}

// split returns how many bytes at the start of the part end a character that begins before it.
func (p *Part) split() int {
	joined := slices.Concat(p.before, p.Data[:min(len(p.Data), utf8.UTFMax)])
	for at := range p.before {
		if r, n := utf8.DecodeRune(joined[at:]); r != utf8.RuneError && at+n > len(p.before) {
			return at + n - len(p.before)
		}
	}
	return 0
}

// mostlyText reports whether the part, which is not UTF-8, has no NUL and few other bytes that text lacks,
// as -T of Perl decides it (https://perldoc.perl.org/functions/-X).
func (p *Part) mostlyText() bool {
	if bytes.IndexByte(p.Data, 0) >= 0 {
		return false
	}
	odd := p.Damaged()
	for _, c := range p.Data {
		if c < ' ' && strings.IndexByte("\t\n\r\f\b\x1b", c) < 0 {
			odd++
		}
	}
	return float64(odd) <= oddShare*float64(len(p.Data))
}

// Damaged returns how many bytes of the part are not UTF-8.
func (p *Part) Damaged() (n int) {
	for at := 0; at < len(p.Data); {
		r, size := utf8.DecodeRune(p.Data[at:])
		if at += size; r == utf8.RuneError && size == 1 {
			n++
		}
	}
	return n
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
	before := min(offset, utf8.UTFMax-1)
	buf := make([]byte, max(0, min(n, size-offset)+before))
	got, err := f.ReadAt(buf, offset-before)
	if err != nil && !errors.Is(err, io.EOF) { // the file can have become shorter
		return nil, failed("reading", path, err)
	}
	before = min(before, int64(got))
	return &Part{Data: buf[before:got], From: offset, Size: size, before: buf[:before]}, nil
}
