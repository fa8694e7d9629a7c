package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// What a value is in JSON, it is in Python, and comes back the same.
func TestValuesTravelUnchanged(t *testing.T) {
	t.Parallel()
	s := startServer(t, "REPL_TOOLSETS=core,namespace", "REPL_GRACE=60s")
	s.do("execute_python", "wait_seconds", 60, "code", "0")
	for _, value := range []string{
		"12345678901234567890123", "-0.5", "1e300", `"` + strings.Repeat("é\U0001f600", 1<<16) + `"`, "[]", "{}", "null", `""`, `"\u0000"`,
		strings.Repeat("[", 800) + strings.Repeat("]", 800), `{"a": {"b": [true, false, null, {"c": "d"}]}}`,
	} {
		r := s.do("set_variable", "name", "v", "value", json.RawMessage(value))
		if r.Header("Status") != "completed" {
			t.Errorf("%.50s: %s", value, r.Header("Status"))
		}
		r = s.do("execute_python", "wait_seconds", 60, "code", "import json; v == json.loads(r'''"+value+"''')")
		if !strings.HasSuffix(string(r), "--- RESULT ---\nTrue\n") {
			t.Errorf("%.50s is another value in Python:\n%s", value, r)
		}
	}
}

func TestVariableIsSeenAsAnImage(t *testing.T) {
	t.Parallel()
	s := startServer(t, "REPL_TOOLSETS=all", "REPL_GRACE=60s")
	s.do("execute_python", "wait_seconds", 60, "code", `import struct, zlib
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
class Picture:
    def _repr_png_(self):
        head = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
        return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")
picture = Picture()`)
	raw, err := s.Request(s.ctx(), "tools/call", map[string]any{
		"name": "get_variable", "arguments": map[string]any{"name": "picture", "format": "image"},
	})
	if err != nil || !strings.Contains(string(raw), "[image 1: PNG 1x1, job://") || !strings.Contains(string(raw), `"type":"image"`) {
		t.Errorf("%s, %v", raw, err)
	}
	if got := s.do("get_variable", "name", "chunk", "format", "image").Header("Status"); got != "failed (there is no picture of an object of type function; format=text shows its repr)" {
		t.Errorf("status %q", got)
	}
}
