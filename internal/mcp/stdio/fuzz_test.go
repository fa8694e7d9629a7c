package stdio

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// fuzzMaxLine is short, so that the fuzzer finds lines that are too long.
const fuzzMaxLine = 200

// converse sends b in pieces of at most size bytes. It returns the lines that come back, and the
// error with which the connection ended.
func converse(t *testing.T, b []byte, size int) (lines []string, end error) {
	t.Helper()
	p, stream := newPeer(t)
	_, done := answerAll(t, &Transport{Stream: stream, MaxLine: fuzzMaxLine}, echo)
	go func() { // owned by the test; ends when all is read, or Cleanup closes the pipe
		for piece := range slices.Chunk(b, size) {
			p.in.Write(piece)
		}
		p.in.Close()
	}()
	return p.rest(), <-done
}

// FuzzLines sends lines of every kind, complete and in pieces. Each is answered at most once, by a
// message. Whatever comes before it, the last line is understood.
func FuzzLines(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{}}`, "[{}]\n{", `{"jsonrpc":"2.0","id":"\u0000number 1","method":"notifications/cancelled","params":{"requestId":1.5}}`,
		`{"jsonrpc":"2.0","id":9007199254740993,"result":null,"error":{"code":"x"}}`, "\xff\n\r\n\x00\n{\"id\":{}}", strings.Repeat("[", 300) + "\n",
		`{"method":"x","a":"` + strings.Repeat("a", 400) + `","id":7}`,
		`{"id":1,"id":2,"jsonrpc":"2.0","method":"m","m\u0065thod":"n"}` + "\r\n" + `{"a":{"id":3},"b":"\"id\":4`,
	} {
		f.Add([]byte(s), uint8(3))
	}
	f.Fuzz(func(t *testing.T, b []byte, size uint8) {
		const last = `"the last, which nothing else can be called"`
		b = fmt.Appendf(b[:len(b):len(b)], "\n{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"m\"}\n", last)
		lines, end := converse(t, b, len(b))
		for _, l := range lines {
			var m map[string]json.RawMessage
			if err := json.Unmarshal([]byte(l), &m); err != nil {
				t.Fatalf("%v: %q", err, l)
			}
			if string(m["jsonrpc"]) != `"2.0"` || m["id"] == nil || (m["result"] == nil) == (m["error"] == nil) {
				t.Fatalf("not an answer: %s", l)
			}
			if len(l) > 8*fuzzMaxLine { // an echo can need six bytes for one
				t.Fatalf("%d bytes of answer to a line of at most %d", len(l), fuzzMaxLine)
			}
		}
		if got := lines[len(lines)-1]; got != echoed(last) {
			t.Fatalf("the last line is not answered: %s", got)
		}
		if n := bytes.Count(b, []byte("\n")); len(lines) > n {
			t.Fatalf("%d answers to %d lines", len(lines), n)
		}
		if end != io.EOF {
			t.Fatal(end)
		}
		again, _ := converse(t, b, int(size)+1)
		if diff := cmp.Diff(lines, again); diff != "" {
			t.Fatalf("in pieces of %d bytes the answers differ:\n%s", int(size)+1, diff)
		}
	})
}

// FuzzRoundTrip sends one request: its id and its parameters come back as they were written,
// wherever they are in the line.
func FuzzRoundTrip(f *testing.F) {
	f.Add(`1.0e1`, "tools/call", `{"a":[1,{"id":2}],"b":"\u0022}"}`, uint8(0))
	f.Add(`"\ud800\/"`, "m\x00\u2028", ` { } `, uint8(3))
	f.Add(`-0`, "", `{"id":1,"id":"x","method":3}`, uint8(5))
	f.Fuzz(func(t *testing.T, id, method, params string, order uint8) {
		_, ok := parseID([]byte(id))
		if !ok || !json.Valid([]byte(id)) || !json.Valid([]byte(params)) || !strings.HasPrefix(strings.TrimSpace(params), "{") || !utf8.ValidString(id+params) || strings.ContainsAny(id+params, "\r\n") || len(method) > 99 {
			return
		}
		members := []string{`"jsonrpc":"2.0"`, `"id":` + id, `"method":` + string(appendJSON(nil, method)), `"params":` + params}
		for i := range members { // one of the orders
			j := i + int(order>>(2*i)&3)%(len(members)-i)
			members[i], members[j] = members[j], members[i]
		}
		line := "{" + strings.Join(members, " , ") + "}"
		if len(line) > fuzzMaxLine {
			return
		}
		var read string
		if err := json.Unmarshal(appendJSON(nil, method), &read); err != nil {
			t.Fatal(err)
		}
		want := `{"jsonrpc":"2.0","id":` + strings.TrimSpace(id) + `,"result":{"method":` + string(appendJSON(nil, read)) + `,"params":` + strings.TrimSpace(params) + "}}"
		if got, _ := converse(t, []byte(line+"\n"), len(line)+1); len(got) != 1 || got[0] != want {
			t.Fatalf("sent %s\n got %s\nwant %s", line, got, want)
		}
	})
}
