package mcpserver

import (
	"bufio"
	"bytes"
	"io"
	"slices"
)

const (
	readBuffer = 16 << 10
	// tailKept is how much of the end of a line is kept that is too long: enough
	// for the id, which some clients write last.
	tailKept = 512
)

// An inputLine is a line without its end; text is nil where it is empty or too
// long.
type inputLine struct {
	text    []byte
	tooLong bool
	id      []byte // of a line that is too long, where it could be told
}

// A lineReader reads lines, and skips what is too long without keeping it.
type lineReader struct {
	r   *bufio.Reader
	max int
}

func newLineReader(r io.Reader, limit int) *lineReader {
	return &lineReader{bufio.NewReaderSize(r, readBuffer), limit}
}

// next returns the next line in memory of its own: the SDK keeps parts of it. The
// last one may come together with the error, and may lack its newline.
func (l *lineReader) next() (line inputLine, err error) {
	var b []byte
	for {
		part, err := l.r.ReadSlice('\n')
		if len(b)+len(bytes.TrimRight(part, "\r\n")) > l.max {
			return l.skip(append(b, part...), err)
		}
		b = append(b, part...)
		if err != bufio.ErrBufferFull {
			if b = bytes.Trim(b, " \t\r\n"); len(b) > 0 {
				line.text = b
			}
			return line, err
		}
	}
}

// skip reads to the end of a line of which b was read, the last piece with err.
func (l *lineReader) skip(b []byte, err error) (inputLine, error) {
	id, request := idAhead(b)
	id = bytes.Clone(id)
	tail := bytes.Clone(b[max(0, len(b)-tailKept):])
	b = nil // to be collected while the rest is read
	for err == bufio.ErrBufferFull {
		var part []byte
		part, err = l.r.ReadSlice('\n')
		tail = append(tail, part...)
		tail = slices.Delete(tail, 0, max(0, len(tail)-tailKept))
	}
	switch {
	case !request: // it may be an answer, and its id one of ours
		id = nil
	case id == nil:
		id = idBehind(tail)
	}
	return inputLine{tooLong: true, id: id}, err
}

// idAhead returns the id of a message of which b is only the beginning, and
// whether it is a request.
func idAhead(b []byte) (id []byte, request bool) {
	eachMember(b, func(key, value []byte) {
		switch string(unquoted(key)) {
		case "id":
			id = value
		case "method":
			request = true
		}
	})
	if _, ok := parseID(id); !ok {
		return nil, request
	}
	return id, request
}

// idBehind returns the id at the end of an object, as in `…,"jsonrpc":"2.0","id":7}`.
// The text before it is not known. In JSON a quotation mark within a string
// follows a backslash, so a comma and then a name in quotation marks are a member,
// and the last brace closes the outermost object.
func idBehind(b []byte) []byte {
	b, ok := bytes.CutSuffix(bytes.TrimSpace(b), []byte("}"))
	if !ok {
		return nil
	}
	b = bytes.TrimSpace(b)
	i := bytes.LastIndexByte(b, ':')
	if i < 0 {
		return nil
	}
	value := bytes.TrimSpace(b[i+1:])
	rest, ok := bytes.CutSuffix(bytes.TrimSpace(b[:i]), []byte(`"id"`))
	if !ok || !bytes.HasSuffix(bytes.TrimSpace(rest), []byte(",")) {
		return nil
	}
	if _, ok := parseID(value); !ok {
		return nil
	}
	return value
}
