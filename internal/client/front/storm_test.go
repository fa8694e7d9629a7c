package front

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"asyncrepl/internal/mcp/stdio"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs/jobstest"
)

// Engines are killed at random moments, while a client makes calls of every kind, cancels some and
// leaves. Each call is answered exactly once, or the connection is closed.
func TestKillStorm(t *testing.T) {
	rounds, seed := jobstest.Storm(t, 100)
	for round := range rounds {
		r := rand.New(rand.NewPCG(seed, uint64(round)))
		w := start(t)
		if r.IntN(2) == 0 {
			w.initialize()
		}
		calls, kills := 1+r.IntN(60), r.IntN(deathsAllowed)
		due := make(map[string]bool) // false: cancelled
		var lines []string
		for n := range calls {
			id := fmt.Sprint(n)
			due[id] = true
			tool := []string{"echo", "echo", "large", "gate"}[r.IntN(4)]
			lines = append(lines, `{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call","params":{"name":"`+tool+`","arguments":{"bytes":`+fmt.Sprint(r.IntN(100_000))+`},`+meta+`}}`)
			switch r.IntN(10) {
			case 0:
				lines = append(lines, cancelled(id))
				due[id] = false
			case 1:
				lines = append(lines, `{"jsonrpc":"2.0","id":"ping `+id+`","method":"tools/list","params":{`+meta+`}}`)
				due[`"ping `+id+`"`] = true
			}
		}
		var group sync.WaitGroup
		group.Go(func() { // joined below
			for _, line := range lines {
				if _, err := io.WriteString(w.in, line+"\n"); err != nil {
					t.Error(err)
				}
				if r.IntN(8) == 0 {
					time.Sleep(time.Duration(r.IntN(300)) * time.Microsecond)
				}
			}
			w.leave()
		})
		pause := make([]time.Duration, kills)
		for i := range pause {
			pause[i] = time.Duration(rand.N(2000)) * time.Microsecond
		}
		group.Go(func() { // joined below
			for _, p := range pause {
				time.Sleep(p)
				if all := w.all(); len(all) > 0 {
					all[len(all)-1].conn.Close()
				}
			}
			close(w.calls.open)
		})
		group.Go(func() { // ends with the calls of the round
			for {
				select {
				case <-w.calls.entered:
				case err := <-w.served:
					w.served <- err
					return
				}
			}
		})
		seen := make(map[string]bool)
		for _, line := range w.rest() {
			id := idOf(t, line)
			if _, known := due[id]; seen[id] || !known { // an answer can cross the cancel of its call
				t.Errorf("round %d: %s is answered twice, or was no call: %.200s", round, id, line)
			}
			seen[id] = true
		}
		for id, expected := range due {
			if expected && !seen[id] {
				t.Errorf("round %d: %s is not answered", round, id)
			}
		}
		group.Wait()
		if t.Failed() {
			t.FailNow()
		}
	}
}

// A client that sends much and reads nothing, then reads all of it: nothing is lost, and the memory
// of the front is bounded, which the engine's own bounds of calls in flight show.
func TestFloodOfASlowClient(t *testing.T) {
	w := start(t)
	w.initialize()
	const calls = 500
	sent := make(chan struct{})
	go func() { // joined below
		defer close(sent)
		for n := range calls {
			fmt.Fprintf(w.in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"large","arguments":{"bytes":%d}}}`+"\n", n, 20_000)
		}
	}()
	<-sent // although no answer has been read
	seen := make(map[string]bool)
	for range calls {
		line := w.line()
		if id := idOf(t, line); seen[id] || len(line) < 20_000 {
			t.Fatalf("%s with %d bytes", id, len(line))
		} else {
			seen[id] = true
		}
	}
}

// A client that does not read delays neither a goodbye nor the end.
func TestClientThatReadsNothing(t *testing.T) {
	for name, end := range map[string]func(*world){
		"end of input": (*world).leave,
		"signal":       func(w *world) { w.cut() },
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t)
			w.initialize()
			w.send(toolCall(`"first"`, "echo"))
			w.line()
			for n := range 200 { // 4 MB of answers
				w.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"large","arguments":{"bytes":20000}}}`, n))
			}
			end(w)
			polltest.Until(t, "the goodbye", func() bool { return len(w.last().goodbyes()) > 0 })
			err := <-w.served
			w.served <- err
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// Long lines pass both ways, and lines split anywhere. A line that is too long is refused, as
// without a front.
func TestLongLines(t *testing.T) {
	w := start(t)
	w.initialize()
	const size = 20 << 20
	w.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"large","arguments":{"bytes":` + fmt.Sprint(size) + `}}}`)
	w.is(answered("1", strings.Repeat("x", size)))
	padded := func(id, n int) string {
		return `{"jsonrpc":"2.0","id":` + fmt.Sprint(id) + `,"method":"tools/call","params":{"name":"who","arguments":{"a":"` + strings.Repeat("a", n) + `"}}}`
	}
	go w.send(padded(2, 15<<20)) // joined by the answer
	w.is(answered("2", "engine 1 of me"))
	go w.send(padded(3, 20<<20), padded(4, 0)) // joined by the answers
	w.is(`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the line is longer than 16777216 bytes and was skipped: send less at a time, for instance the path of a file"}}`,
		answered("4", "engine 1 of me"))
	for _, b := range []byte(padded(5, 10) + "\n") {
		w.in.Write([]byte{b})
	}
	w.is(answered("5", "engine 1 of me"))
}

// An engine's last words count if they are whole: what came of a line when it was killed is
// dropped.
func TestHalfALine(t *testing.T) {
	w := start(t)
	w.initialize()
	w.send(toolCall("1", "gate"), toolCall("2", "gate"))
	for range 2 {
		<-w.calls.entered
	}
	e := w.last()
	got := e.got()
	for i, line := range got[len(got)-2:] {
		answer := `{"jsonrpc":"2.0","id":` + idOf(t, line) + `,"result":{"content":[]}}` + "\n"
		io.WriteString(e.conn, answer[:len(answer)-i])
	}
	e.conn.Close()
	w.is(`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`, failed("2"))
}

// What an engine says that is no message is passed over, and nothing that it says can be taken for
// the answer to another call.
func TestRubbishOfAnEngine(t *testing.T) {
	w := start(t)
	w.initialize()
	w.send(toolCall("1", "gate"))
	<-w.calls.entered
	for _, line := range []string{
		"", "rubbish", "{", `{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":"1","result":{}}`, `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}`,
		`{"jsonrpc":"2.0","id":"front-1","result":{}}`, `{"jsonrpc":"2.0","id":"front-99","error":{"code":1,"message":"x"}}`, `{"jsonrpc":"2.0","id":,"result":`, `{"jsonrpc":"2.0","id":"`, "\x00\xff",
	} {
		io.WriteString(w.last().conn, line+"\n")
	}
	close(w.calls.open)
	w.is(answered("1", "opened"))
}

// FuzzPassing sends lines of every kind, in pieces of any size, to a server with a front and to one
// without. The answers are the same.
func FuzzPassing(f *testing.F) {
	for _, s := range []string{
		initialize + "\n" + initialized + "\n" + toolCall("1", "echo"),
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"a":[1.50,"\u00e9\ud800"]},` + meta + `}}`,
		`{"jsonrpc":"2.0","id":"\u0000","method":"resources/read","params":{"uri":5,` + meta + `}}` + "\r\n\n" + toolCall(`"a\"b,\"result\":"`, "echo"),
		initialize + "\n" + `{"jsonrpc":"2.0","id":7.0,"method":"m\u00e9","params":null}` + "\n[{}]\n" + `{"jsonrpc":"2.0","id":8,"params":{},"method":"tools/call"}`,
		`{"jsonrpc":"2.0","method":"notifications/roots/list_changed","params":{}}` + "\n" + `{"jsonrpc":"2.0","id":1,"result":{}}`,
	} {
		f.Add([]byte(s), uint8(7))
	}
	f.Fuzz(func(t *testing.T, b []byte, size uint8) {
		for _, depends := range []string{"gate", "ask", "change", "who", "large", "cancelled"} {
			if bytes.Contains(b, []byte(depends)) {
				t.Skip("answers that depend on the moment, or on the server")
			}
		}
		converse := func(alone bool) []string {
			w := start(t)
			if alone {
				w.leave()
				w.rest()
				client, ours := pipes(t)
				session, err := w.calls.server(t.Context(), "alone").Connect(t.Context(), &stdio.Transport{Stream: ours}, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer client.Close()
				defer session.Wait()
				w.in = client
				w.read.Reset(client)
			}
			go func() { // joined by the answers; ends when all is read
				for piece := range slices.Chunk(b, int(size)+1) {
					w.in.Write(piece)
				}
				w.leave()
			}()
			begun := time.Now()
			lines := w.rest()
			if took := time.Since(begun); took > 4*time.Second {
				t.Errorf("alone %t: the end took %v after %q", alone, took, lines)
			}
			slices.Sort(lines)
			return lines
		}
		with, without := converse(false), converse(true)
		if len(ids(b)) > len(slices.Compact(ids(b))) {
			t.Skip("an id that is used twice can be free again, or not yet")
		}
		if !slices.Equal(with, without) {
			t.Errorf("with a front\n%s\nwithout\n%s", strings.Join(with, "\n"), strings.Join(without, "\n"))
		}
	})
}

// ids returns the sorted ids of the lines that are messages.
func ids(b []byte) (ids []string) {
	for line := range bytes.Lines(b) {
		var m struct{ ID any }
		if json.Unmarshal(line, &m) == nil && m.ID != nil {
			ids = append(ids, fmt.Sprint(m.ID))
		}
	}
	slices.Sort(ids)
	return ids
}
