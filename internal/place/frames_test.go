package place

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"time"
)

// clock serves as an engine whose clock is ahead of ours.
func clock(ahead time.Duration) wrapper {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(&frames{ResponseWriter: w, change: func(kind byte, body []byte) []byte {
			if kind != 'r' {
				return body
			}
			var v map[string]any
			if json.Unmarshal(body, &v) != nil {
				return body
			}
			moved(v, ahead)
			b, _ := json.Marshal(v)
			return b
		}}, r)
	}
}

// moved adds d to each time in v.
func moved(v any, d time.Duration) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = moved(v[k], d)
		}
	case []any:
		for i := range v {
			v[i] = moved(v[i], d)
		}
	case string:
		if at, err := time.Parse(time.RFC3339Nano, v); err == nil && !at.IsZero() {
			return at.Add(d).Format(time.RFC3339Nano)
		}
	}
	return v
}

// A frames changes the bodies of frames of a life that is written to it.
type frames struct {
	http.ResponseWriter
	buf    bytes.Buffer
	change func(kind byte, body []byte) []byte
}

func (f *frames) Unwrap() http.ResponseWriter { return f.ResponseWriter }

func (f *frames) Write(b []byte) (int, error) {
	f.buf.Write(b)
	for f.buf.Len() >= 5 {
		head := f.buf.Bytes()[:5]
		size := int(binary.BigEndian.Uint32(head[1:]))
		if head[0] == '{' { // another answer
			f.ResponseWriter.Write(f.buf.Next(f.buf.Len()))
			break
		}
		if f.buf.Len() < 5+size {
			break
		}
		kind := head[0]
		f.buf.Next(5)
		body := f.change(kind, bytes.Clone(f.buf.Next(size)))
		f.ResponseWriter.Write(frame(kind, body))
	}
	return len(b), nil
}

// frame returns a frame of a life.
func frame(kind byte, body []byte) []byte {
	b := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)))
	return append(b, body...)
}
