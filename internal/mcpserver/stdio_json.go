package mcpserver

import (
	"bytes"
	"encoding/json"
)

// Messages are taken apart here and not by encoding/json, which matches names of
// members in any case ("ID" for "id"), and copies each part.

// eachMember calls f with the members of the object that b begins with, names in
// their quotation marks. b may end early: members that are not whole are left out.
// What is not JSON ends it too.
func eachMember(b []byte, f func(key, value []byte)) {
	i := space(b, 0)
	if i == len(b) || b[i] != '{' {
		return
	}
	for i++; ; i++ {
		i = space(b, i)
		end := value(b, i)
		colon := space(b, end)
		if end == i || colon == len(b) || b[colon] != ':' {
			return
		}
		from := space(b, colon+1)
		to := value(b, from)
		next := space(b, to)
		if to == from || next == len(b) || b[next] != ',' && b[next] != '}' {
			return
		}
		f(b[i:end], b[from:to])
		if b[next] == '}' {
			return
		}
		i = next
	}
}

// space returns the first offset from i on that is no white space.
func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\r' || b[i] == '\n') {
		i++
	}
	return i
}

// value returns the end of the value at i; i if there is none, len(b) if it has no
// end.
func value(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			if i = quoted(b, i); depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ':', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return i
}

// quoted returns the end of the string at i.
func quoted(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// unquoted returns the text of a string in its quotation marks, where it can as a
// part of it.
func unquoted(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return bytes.Trim(quoted, `"`)
	}
	var s string
	if json.Unmarshal(quoted, &s) != nil {
		return nil
	}
	return []byte(s)
}

// member returns a member of an object, the last if there are several.
func member(object []byte, want string) (found []byte) {
	eachMember(object, func(key, value []byte) {
		if string(unquoted(key)) == want {
			found = value
		}
	})
	return found
}

// withMember returns the object with another value for a member that it has.
func withMember(object []byte, want string, value []byte) []byte {
	b := []byte{'{'}
	eachMember(object, func(key, old []byte) {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(b, key...), ':')
		if string(unquoted(key)) == want {
			old = value
		}
		b = append(b, old...)
	})
	return append(b, '}')
}
