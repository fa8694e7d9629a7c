package stdio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// Messages that Divert takes don't reach the SDK. Calls among them are in flight until they are
// answered, so the end of input waits for them; End is called before, and after every message.
func TestDivert(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, stream := newPeer(t)
		var diverted []string // used by the reader, and after the end of input
		ended := make(chan struct{})
		var over atomic.Bool
		c, done := answerAll(t, &Transport{
			Stream: stream,
			Divert: func(m jsonrpc.Message) bool {
				r, ok := m.(*jsonrpc.Request)
				if ok && r.Method == "away" || ok && r.Method == "notifications/cancelled" {
					diverted = append(diverted, r.Method+string(r.Params))
				}
				return ok && r.Method == "away"
			},
			End: func() { over.Store(true); close(ended) },
		}, echo)
		away := func(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"method":"away"}` }
		p.send(away("1"), request("2"))
		if got := p.line(); got != echoed("2") {
			t.Errorf("got %s", got)
		}
		p.send(away("1"), "rubbish", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
		for _, want := range []string{`"id 1 is that of a call still in flight`, `the line is not JSON`} {
			if got := p.line(); !strings.Contains(got, want) {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		if over.Load() {
			t.Error("End was called before the end")
		}
		p.in.Close()
		<-ended
		synctest.Wait()
		if want := `[away notifications/cancelled{"requestId":3}]`; fmt.Sprint(diverted) != want {
			t.Errorf("diverted were %s", diverted)
		}
		select {
		case err := <-done:
			t.Fatalf("the end did not wait for the call: %v", err)
		default:
		}
		id, _ := parseID([]byte("1"))
		go c.Write(context.Background(), &jsonrpc.Response{ID: id, Result: json.RawMessage(`{"a":1}`)}) // joined by the answer
		if got := p.line(); got != `{"jsonrpc":"2.0","id":1,"result":{"a":1}}` {
			t.Errorf("got %s", got)
		}
		<-done
	})
}

// After Cut, Divert gets nothing more.
func TestDivertEndsWithCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, stream := newPeer(t)
		cut, cancel := context.WithCancel(context.Background())
		_, done := answerAll(t, &Transport{Stream: stream, Cut: cut, Divert: func(jsonrpc.Message) bool {
			t.Error("a message came after Cut")
			return true
		}}, echo)
		cancel()
		synctest.Wait()
		fmt.Fprintln(p.in, request("1")) // an error: the stream is closed already
		p.in.Close()
		<-done
	})
}

// Decode returns what the lines of a Transport say, whatever they hold.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`1`, `-0.0`, `"a,\"result\":"`, `"\u0000"`, `9007199254740993`} {
		f.Add(s, `{"a":[1,"}"],"result":2}`, "")
	}
	f.Add(`"x"`, "", `wrong ,"result":{}`)
	f.Fuzz(func(t *testing.T, raw, result, fault string) {
		id, ok := parseID(json.RawMessage(raw))
		if !ok || !json.Valid([]byte(raw)) || strings.TrimSpace(raw) != raw {
			t.Skip("no id of a call")
		}
		r := &jsonrpc.Response{ID: id, Result: json.RawMessage(result)}
		if fault != "" {
			r = &jsonrpc.Response{ID: id, Error: &jsonrpc.Error{Code: -1, Message: fault, Data: json.RawMessage(`{"x":1,"result":{}}`)}}
		} else if !json.Valid([]byte(result)) || strings.Contains(result, "\n") {
			t.Skip("no result of the SDK")
		}
		m, err := Decode(appendResponse(nil, json.RawMessage(raw), r))
		if err != nil {
			t.Fatal(err)
		}
		got := m.(*jsonrpc.Response)
		if got.ID != id || string(got.Result) != string(r.Result) {
			t.Errorf("%v %s, want %v %s", got.ID.Raw(), got.Result, id.Raw(), r.Result)
		}
		if wire := (*jsonrpc.Error)(nil); fault != "" && (!errors.As(got.Error, &wire) || wire.Code != -1) {
			t.Errorf("got %v", got.Error)
		}
	})
}

// Notifications and requests are decoded, too, and rubbish is an error.
func TestDecode(t *testing.T) {
	for line, method := range map[string]string{
		`{"jsonrpc":"2.0","method":"notifications/x","params":{"result":1}}`:           "notifications/x",
		`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":2,"result":{}}}` + "\n": "ping",
	} {
		m, err := Decode([]byte(line))
		if r, ok := m.(*jsonrpc.Request); err != nil || !ok || r.Method != method {
			t.Errorf("%s: %v, %v", line, m, err)
		}
	}
	for _, line := range []string{"", "\n", "{", "[]", `{"jsonrpc":"2.0","id":`, `{"jsonrpc":"2.0","id":,"result":`, `{"jsonrpc":"2.0","id":"x,"result":}`, `{"jsonrpc":"2.0","id":1 2,"result":{}}`} {
		if m, err := Decode([]byte(line)); err == nil {
			t.Errorf("%q is %v", line, m)
		}
	}
}
