package far

import (
	"bytes"
	"fmt"
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/test/must"
)

// written keeps each write.
type written struct {
	net.Conn
	all [][]byte
}

func (w *written) Write(b []byte) (int, error) {
	w.all = append(w.all, bytes.Clone(b))
	return len(b), nil
}

// frame returns a frame of HTTP/2 with a body of some bytes.
func frame(kind, flags byte, size int) []byte {
	b := []byte{byte(size >> 16), byte(size >> 8), byte(size), kind, flags, 0, 0, 0, 1}
	return append(b, bytes.Repeat([]byte{kind}, size)...)
}

// Headers wait for what follows them, and nothing else waits, however the writes cut the frames.
func TestJoin(t *testing.T) {
	const data, ping = 0x0, 0x6
	headers, all := frame(headersType, endHeaders, 40), frame(headersType, endHeaders|endStream, 40)
	body, large := frame(data, endStream, 100), frame(data, 0, 5000)
	for name, c := range map[string]struct {
		writes, want [][]byte
	}{
		"headers and a body":        {[][]byte{headers, body}, [][]byte{append(bytes.Clone(headers), body...)}},
		"headers of no body":        {[][]byte{all, body}, [][]byte{all, body}},
		"headers without an end":    {[][]byte{frame(headersType, 0, 40), body}, [][]byte{frame(headersType, 0, 40), body}},
		"two headers":               {[][]byte{headers, headers, body}, [][]byte{bytes.Join([][]byte{headers, headers, body}, nil)}},
		"headers after a body":      {[][]byte{append(bytes.Clone(large), headers...), body}, [][]byte{bytes.Join([][]byte{large, headers, body}, nil)}},
		"headers before a ping":     {[][]byte{headers, frame(ping, 0, 8)}, [][]byte{append(bytes.Clone(headers), frame(ping, 0, 8)...)}},
		"a body that looks like it": {[][]byte{large[:9+50], headers, large[9+50+len(headers):]}, [][]byte{large[:9+50], headers, large[9+50+len(headers):]}},
		"a head that is cut":        {[][]byte{body, headers[:4], headers[4:20], headers[20:], body}, [][]byte{body, headers[:4], headers[4:20], append(bytes.Clone(headers[20:]), body...)}},
		"nothing":                   {[][]byte{headers, {}, body}, [][]byte{append(bytes.Clone(headers), body...)}},
	} {
		for _, client := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", client: ", client), func(t *testing.T) {
				var w written
				j := join(&w, client)
				if client {
					must.Get(j.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")))(t)
					w.all = nil
				}
				for _, b := range c.writes {
					if n, err := j.Write(b); n != len(b) || err != nil {
						t.Errorf("%d of %d bytes, %v", n, len(b), err)
					}
				}
				if d := cmp.Diff(c.want, w.all); d != "" {
					t.Error(d)
				}
			})
		}
	}
}
