// Package rawjson takes one level of a JSON object apart and leaves the values below it as they
// are. encoding/json would lose the order of the members and those that are given twice, or match
// their names without regard to case; and it reads every value once more than is needed.
//
// What is given must be valid JSON, see [json.Valid]. What is taken from it shares its memory.
package rawjson

import (
	"bytes"
	"encoding/json"
	"iter"
	"unicode/utf8"
)

const space = " \t\r\n"

// IsObject reports whether a value is an object.
func IsObject(value []byte) bool {
	value = bytes.TrimLeft(value, space)
	return len(value) > 0 && value[0] == '{'
}

// Members returns the names and values of an object, in order. A value that is no object has none.
func Members(value []byte) iter.Seq2[string, json.RawMessage] {
	return func(yield func(string, json.RawMessage) bool) {
		if !IsObject(value) {
			return
		}
		rest := bytes.TrimLeft(value, space)[1:]
		for {
			if rest = bytes.TrimLeft(rest, space+","); rest[0] == '}' {
				return
			}
			n := length(rest)
			name, _ := String(rest[:n])
			rest = bytes.TrimLeft(rest[n:], space+":")
			n = length(rest)
			if !yield(name, json.RawMessage(rest[:n:n])) {
				return
			}
			rest = rest[n:]
		}
	}
}

// String returns the text of a value that is a string, and reports whether it is one.
func String(value []byte) (s string, ok bool) {
	if len(value) < 2 || value[0] != '"' {
		return "", false
	}
	for _, b := range value {
		if b == '\\' || b >= utf8.RuneSelf {
			err := json.Unmarshal(value, &s)
			return s, err == nil
		}
	}
	return string(value[1 : len(value)-1]), true
}

// length returns the length of the value that b begins with.
func length(b []byte) int {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			for i++; b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i // of the object around a number or a literal
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
	}
	return len(b)
}

// Of encodes a value that can always be encoded.
func Of(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
