package stdio

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// A duplex is the server's end of two pipes, of which the client can close one.
type duplex struct {
	io.ReadCloser
	io.WriteCloser
}

func (d duplex) Close() error {
	d.ReadCloser.Close()
	return d.WriteCloser.Close()
}

// A peer is the client's end: it writes and reads lines.
type peer struct {
	t    testing.TB
	in   *io.PipeWriter
	out  *io.PipeReader
	read *bufio.Reader
}

func newPeer(t testing.TB) (*peer, io.ReadWriteCloser) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	t.Cleanup(func() { inW.Close(); outR.Close() })
	return &peer{t, inW, outR, bufio.NewReader(outR)}, duplex{inR, outW}
}

func (p *peer) send(lines ...string) {
	p.t.Helper()
	for _, l := range lines {
		if _, err := io.WriteString(p.in, l+"\n"); err != nil {
			p.t.Fatalf("sending %.80q: %v", l, err)
		}
	}
}

func (p *peer) line() string {
	p.t.Helper()
	l, err := p.read.ReadString('\n')
	if err != nil {
		p.t.Fatalf("reading an answer: %v (%q)", err, l)
	}
	return strings.TrimSuffix(l, "\n")
}

// rest returns the lines up to the end.
func (p *peer) rest() []string {
	p.t.Helper()
	b, err := io.ReadAll(p.read)
	if err != nil {
		p.t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

// echo answers a call with its method and its parameters.
func echo(r *jsonrpc.Request) *jsonrpc.Response {
	result := appendJSON([]byte(`{"method":`), r.Method)
	if r.Params != nil {
		result = append(append(result, `,"params":`...), r.Params...)
	}
	return &jsonrpc.Response{ID: r.ID, Result: append(result, '}')}
}

// answerAll stands for the SDK: it reads messages and answers the calls one at a time. An answer of
// nil is none. done receives the error that Read ends with.
func answerAll(t testing.TB, tr *Transport, answer func(*jsonrpc.Request) *jsonrpc.Response) (c *conn, done <-chan error) {
	t.Helper()
	c = tr.connect()
	t.Cleanup(func() { c.Close() })
	ended := make(chan error, 1) // buffered: not every test asks
	go func() {                  // owned by the test; ends with the connection, which Cleanup closes
		for {
			m, err := c.Read(context.Background())
			if err != nil {
				ended <- err
				c.Close()
				return
			}
			if r, ok := m.(*jsonrpc.Request); ok && r.IsCall() {
				if a := answer(r); a != nil {
					c.Write(context.Background(), a)
				}
			}
		}
	}()
	return c, ended
}

const (
	notJSON = `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"the line is not JSON: send one whole message a line"}}`
	// noID is the message of a refused id.
	noID = `"id" must be a string of at most 1024 bytes or a whole number below 2^53; leave it out of a notification`
)

func faulty(id string, message string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32600,"message":%s}}`, id, appendJSON(nil, message))
}

// badID is the refusal of an id, which it names if that can be read.
func badID(id string) string { return faulty(id, noID) }

// appendJSON appends the JSON form of v, which has one.
func appendJSON(b []byte, v any) []byte {
	j, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return append(b, j...)
}

func request(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"method":"m"}` }

func echoed(id string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"result":{"method":"m"}}`
}

func TestLines(t *testing.T) {
	const max = 3000
	const tooLong = "the line is longer than 3000 bytes and was skipped: send less at a time, for instance the path of a file"
	big := `"` + strings.Repeat("x", 5*readBuffer) + `"`
	tests := map[string]struct{ in, want string }{
		"call":                    {request("1") + "\n", echoed("1")},
		"params":                  {`{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":[1,"}"]}}` + "\n", `{"jsonrpc":"2.0","id":1,"result":{"method":"m","params":{"a":[1,"}"]}}}`},
		"crlf and blank lines":    {"\r\n \n" + request("1") + "\r\n\n", echoed("1")},
		"no newline at the end":   {request("1"), echoed("1")},
		"white space":             {" { \"jsonrpc\" : \"2.0\" ,\t\"id\" : 1 , \"method\" : \"m\" } \n", echoed("1")},
		"any order":               {`{"method":"m","id":1,"jsonrpc":"2.0"}`, echoed("1")},
		"escapes":                 {`{"jsonrpc":"2.0","id":1,"m\u0065thod":"\u006d"}`, echoed("1")},
		"member twice":            {`{"jsonrpc":"2.0","id":1,"method":"x","method":"m"}`, echoed("1")},
		"notification":            {`{"jsonrpc":"2.0","method":"m"}`, ""},
		"id 0":                    {request("0"), echoed("0")},
		"id 1.0":                  {request("1.0"), echoed("1.0")},
		"id 1.5":                  {request("1.5"), badID("1.5")},
		"id 1e3":                  {request("1e3"), echoed("1e3")},
		"id -0":                   {request("-0"), echoed("-0")},
		"id -7":                   {request("-7"), echoed("-7")},
		"id 9007199254740993":     {request("9007199254740993"), badID("9007199254740993")},
		"id 9007199254740991":     {request("9007199254740991"), echoed("9007199254740991")},
		"id of thirty digits":     {request(strings.Repeat("9", 30)), badID(strings.Repeat("9", 30))},
		"id a string":             {request(`"1"`), echoed(`"1"`)},
		"id an empty string":      {request(`""`), echoed(`""`)},
		"id with escapes":         {request(`"\u0061\"/\ud800"`), echoed(`"\u0061\"/\ud800"`)},
		"id null":                 {request("null"), badID("null")},
		"id an object":            {request("{}"), badID("null")},
		"id a bool":               {request("true"), badID("null")},
		"id very long":            {request(`"` + strings.Repeat("x", maxID) + `"`), badID("null")},
		"malformed":               {`{"jsonrpc":"2.0","id":1,` + "\n" + request("2"), notJSON + "\n" + echoed("2")},
		"two on a line":           {request("1") + request("2") + "\n" + request("3"), notJSON + "\n" + echoed("3")},
		"not UTF-8":               {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"the line is not UTF-8"}}`},
		"batch":                   {"[" + request("1") + "]\n" + request("2"), faulty("null", "batches are not supported: send one message a line") + "\n" + echoed("2")},
		"not an object":           {"42", faulty("null", "a message must be a JSON object")},
		"no version":              {`{"id":1,"method":"m"}`, faulty("1", `"jsonrpc" must be "2.0"`)},
		"version a number":        {`{"jsonrpc":2.0,"id":1.50,"method":"m"}`, faulty("1.50", `"jsonrpc" must be "2.0"`)},
		"answer without version":  {`{"id":1,"result":{}}`, faulty("null", `"jsonrpc" must be "2.0"`)},
		"names in capitals":       {`{"JSONRPC":"2.0","ID":1,"Method":"m"}`, faulty("null", `"jsonrpc" must be "2.0"`)},
		"method a number":         {`{"jsonrpc":"2.0","id":1,"method":5}`, faulty("1", `"method" must be a string`)},
		"params an array":         {`{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"\"params\" must be an object"}}`},
		"no method":               {`{"jsonrpc":"2.0","id":1}`, faulty("1", `the message has no "method"`)},
		"answer to no call":       {`{"jsonrpc":"2.0","id":1,"result":{}}` + "\n" + request("2"), echoed("2")},
		"answer without an id":    {`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}` + "\n" + request("2"), echoed("2")},
		"too long":                {`{"jsonrpc":"2.0","id":7,"method":"m","params":` + big + "}\n" + request("2"), faulty("null", tooLong) + "\n" + echoed("2")},
		"too long, id at the end": {`{"method":"m","params":` + big + `,"jsonrpc":"2.0","id":"a-7"}` + "\n" + request("2"), faulty("null", tooLong) + "\n" + echoed("2")},
		"too long, an answer":     {`{"jsonrpc":"2.0","id":7,"result":` + big + "}\n", faulty("null", tooLong)},
		"too long, not ended":     {`{"jsonrpc":"2.0","id":7,"method":"m","params":` + big, faulty("null", tooLong)},
		"as long as allowed":      {request("1") + strings.Repeat(" ", max-len(request("1"))) + "\r\n", echoed("1")},
		"longer by one":           {request("1") + strings.Repeat(" ", max-len(request("1"))+1) + "\n", faulty("null", tooLong)},
		"cancelled without an id": {`{"jsonrpc":"2.0","method":"notifications/cancelled","params":[]}` + "\n" + request("2"), echoed("2")},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p, stream := newPeer(t)
			answerAll(t, &Transport{Stream: stream, MaxLine: max}, echo)
			go func() { // owned by the test; ends when all is read, or Cleanup closes the pipe
				io.WriteString(p.in, tt.in)
				p.in.Close()
			}()
			if diff := cmp.Diff(strings.Split(tt.want, "\n"), p.rest()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// The server refuses a message that is nested too deep for a decoder, and the session continues. Up to 10,000
// levels the SDK's decoder refuses the parameters, and the error names the call.
func TestDeepMessage(t *testing.T) {
	p, _ := newGate().serve(t, Transport{})
	for levels, want := range map[int]string{2_000: `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,`, 20_000: notJSON} {
		p.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":` + strings.Repeat(`{"a":`, levels) + "null" + strings.Repeat("}", levels+1))
		if got := p.line(); !strings.HasPrefix(got, want) {
			t.Errorf("%d levels: got %s", levels, got)
		}
		p.send(toolCall("2", "echo"))
		if got := p.line(); got != answered("2", `{"id":2}`) {
			t.Errorf("after %d levels: got %s", levels, got)
		}
	}
}

func TestIDInFlight(t *testing.T) {
	p, stream := newPeer(t)
	var held *jsonrpc.Request
	c, _ := answerAll(t, &Transport{Stream: stream}, func(r *jsonrpc.Request) *jsonrpc.Response {
		if r.Method == "hold" {
			held = r
			return nil
		}
		return echo(r)
	})
	p.send(`{"jsonrpc":"2.0","id":1,"method":"hold"}`, `{"jsonrpc":"2.0","id":1,"method":"m"}`)
	if got, want := p.line(), faulty("null", "id 1 is that of a call still in flight: give each call an id of its own"); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	// The same number in another form is the same id, the string is another.
	p.send(`{"jsonrpc":"2.0","id":1.0,"method":"m"}`, `{"jsonrpc":"2.0","id":"1","method":"m"}`)
	if got, want := p.line(), faulty("null", "id 1.0 is that of a call still in flight: give each call an id of its own"); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if got := p.line(); got != echoed(`"1"`) {
		t.Errorf("id \"1\": %s", got)
	}
	go c.Write(context.Background(), echo(held)) // owned by the test, which reads it
	if got, want := p.line(), `{"jsonrpc":"2.0","id":1,"result":{"method":"hold"}}`; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// TestResultIsNotEncodedAgain: a result goes out as the SDK has encoded it, on one line.
func TestResultIsNotEncodedAgain(t *testing.T) {
	p, stream := newPeer(t)
	answerAll(t, &Transport{Stream: stream}, func(r *jsonrpc.Request) *jsonrpc.Response {
		return &jsonrpc.Response{ID: r.ID, Result: []byte(`{ "b":"\u003c<\n",` + "\n" + `"a":1.50 }`)}
	})
	p.send(request("1"))
	if got, want := p.line(), `{"jsonrpc":"2.0","id":1,"result":{ "b":"\u003c<\n", "a":1.50 }}`; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}
