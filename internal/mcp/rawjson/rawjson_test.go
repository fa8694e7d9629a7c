package rawjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
)

func Example() {
	object := []byte(`{"id": 1.0, "params": {"a": [1, "]}"]}, "id": "\u00e9", "x":null}`)
	for name, value := range Members(object) {
		fmt.Printf("%s = %s\n", name, value)
		if s, ok := String(value); ok {
			fmt.Println("which is", s)
		}
	}
	// Output:
	// id = 1.0
	// params = {"a": [1, "]}"]}
	// id = "\u00e9"
	// which is é
	// x = null
}

func TestMembersCanBeLeftEarly(t *testing.T) {
	for name, value := range Members([]byte(`{"a":1,"b":2}`)) {
		if name != "a" || string(value) != "1" {
			t.Fatalf("%s = %s", name, value)
		}
		break
	}
}

// FuzzMembers compares the members with those that encoding/json finds.
func FuzzMembers(f *testing.F) {
	for _, s := range []string{
		`{}`, ` { "a" : [ { } , "\\" ] , "b":-1.5e3} `, `{"a":"\"}","\ud800":{"]":"["},"":""}`, `[1,{"a":2}]`, `"{"`, `7`, ` null`, "{\"\xff\":true\n,\"\u00e9\":false\t}",
		`{"a":{"a":1},"a":[[[]]]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if !json.Valid(b) {
			return
		}
		dec := json.NewDecoder(bytes.NewReader(b))
		dec.UseNumber() // a float64 is too small for some
		if first, err := dec.Token(); err != nil || (first == json.Delim('{')) != IsObject(b) {
			t.Fatalf("%q: begins with %v, %v", b, first, err)
		}
		for name, value := range Members(b) {
			wantName, err := dec.Token()
			if err != nil || name != wantName {
				t.Fatalf("%q: got name %q, want %q, %v", b, name, wantName, err)
			}
			var want json.RawMessage
			if err := dec.Decode(&want); err != nil || !bytes.Equal(value, want) {
				t.Fatalf("%q: got value %q, want %q, %v", b, value, want, err)
			}
			var s string
			if got, ok := String(value); ok != (value[0] == '"') || ok && (json.Unmarshal(value, &s) != nil || s != got) {
				t.Fatalf("%q: got string %q, %v", value, got, ok)
			}
		}
		if IsObject(b) && dec.More() {
			t.Fatalf("%q: members are missing", b)
		}
	})
}
