package front

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"asyncrepl/internal/client/sockets"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
)

// A server that is not used has no engine, whatever a client asks when it starts.
func TestUnused(t *testing.T) {
	w := start(t)
	w.send(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{`+meta+`}}`,
		`{"jsonrpc":"2.0","id":"s","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},`+meta+`}}`)
	for range 2 {
		w.line()
	}
	w.send(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":3,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":4,"method":"resources/templates/list"}`, initialize, initialized, `not JSON`,
		`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`, cancelled("9"), cancelled(`"s"`), `{"jsonrpc":"2.0","id":7,"result":{}}`)
	for range 5 {
		w.line()
	}
	w.leave()
	if got := w.rest(); len(got) > 0 {
		t.Errorf("got %s", got)
	}
	if n := len(w.all()); n != 0 {
		t.Errorf("%d engines were attached", n)
	}
}

// A client that does not wait for answers is served in order: its first call finds the connection
// initialized.
func TestFirstCallAttaches(t *testing.T) {
	w := start(t)
	w.send(initialize, initialized, toolCall("1", "who"), toolCall("2", "who"))
	got := []string{w.line(), w.line(), w.line()}
	slices.Sort(got)
	if got[1] != answered("1", "engine 1 of me") || got[2] != answered("2", "engine 1 of me") {
		t.Errorf("got %s", got)
	}
}

// The newer protocol has no handshake, and an engine gets none.
func TestNewerCall(t *testing.T) {
	w := start(t)
	w.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"who",` + meta + `}}`)
	if got := w.line(); !strings.Contains(got, "engine 1 of me") {
		t.Errorf("got %s", got)
	}
	if got := w.last().got(); len(got) != 1 {
		t.Errorf("the engine got %q", got)
	}
}

// An initialize that comes when an engine is attached reaches it. A failed one counts for nothing.
func TestLateInitialize(t *testing.T) {
	w := start(t)
	w.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":5}}`, toolCall("2", "who"))
	for range 2 {
		if got := w.line(); !strings.Contains(got, `"error"`) {
			t.Errorf("got %s", got)
		}
	}
	w.initialize()
	w.send(toolCall("3", "who"))
	w.is(answered("3", "engine 1 of me"))
}

// When an engine dies, each call in flight is answered, by the kind of its method, and the next one
// has a new engine, with what the client had said before.
func TestDeathAnswersCalls(t *testing.T) {
	w := start(t)
	w.initialize()
	for n := range deathsAllowed - 1 {
		w.send(toolCall("1", "gate"), toolCall("7.0", "gate"))
		for range 2 {
			<-w.calls.entered
		}
		w.last().conn.Close()
		got := []string{w.line(), w.line()}
		slices.Sort(got)
		if want := []string{failed("1"), failed("7.0")}; !slices.Equal(got, want) {
			t.Errorf("got %s", got)
		}
		w.send(toolCall("2", "who"))
		w.is(answered("2", fmt.Sprintf("engine %d of me", n+2)))
	}
}

// An open subscription is for every engine, and is acknowledged once. One that was cancelled is for
// none.
func TestSubscriptionsSurvive(t *testing.T) {
	w := start(t)
	listen := func(id string) {
		w.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` + meta + `}}`)
		if got := w.line(); !strings.Contains(got, "notifications/subscriptions/acknowledged") {
			t.Fatal(got)
		}
	}
	newer := func(tool string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":{},` + meta + `}}`
	}
	changes := func() {
		w.send(newer("change"))
		got := []string{w.line(), w.line()}
		slices.Sort(got)
		if want := `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"s"}}}`; got[1] != want {
			t.Errorf("got %s", got)
		}
	}
	listen(`"over"`)
	w.send(cancelled(`"over"`))
	listen(`"s"`)
	for range 2 {
		changes()
		w.send(newer("gate"))
		<-w.calls.entered
		w.last().conn.Close()
		w.line()
	}
	w.send(newer("who"))
	w.line()
	w.send(cancelled(`"s"`))
	w.send(newer("who"))
	w.line()
	if got := w.last().got(); !strings.Contains(got[0], "subscriptions/listen") || got[2] != cancelled(`"s"`) {
		t.Errorf("the engine got %s", got)
	}
}

// Jobs can write what they like as an engine that runs as their user. The client is asked for nothing, and a
// message without an end ends the engine.
func TestHostileEngine(t *testing.T) {
	w := start(t)
	w.initialize()
	w.send(toolCall("1", "gate"))
	<-w.calls.entered
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":"x","method":"elicitation/create","params":{"message":"your password?"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":"front-1","result":{}}`, `{`, ``,
	} {
		must.Get(w.last().conn.Write([]byte(line + "\n")))(t)
	}
	w.calls.open <- struct{}{}
	w.is(answered("1", "opened"))
	w.send(`{"jsonrpc":"2.0","id":"x","result":{"action":"accept"}}`) // it was not asked
	w.send(toolCall("2", "gate"))
	<-w.calls.entered
	endless := bytes.Repeat([]byte("x"), 1<<20)
	for range mostLine/len(endless) + 2 {
		if _, err := w.last().conn.Write(endless); err != nil {
			break
		}
	}
	if got := w.line(); !strings.Contains(got, "The server died during this call") {
		t.Errorf("got %.200s", got)
	}
}

// A failure says so as the protocol of the client has it.
func TestFailuresByProtocol(t *testing.T) {
	w := start(t)
	w.refuse = errors.New("fork/exec /proc/self/exe: resource temporarily unavailable")
	w.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"who",` + meta + `}}`)
	w.is(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"The server could not be started: fork/exec /proc/self/exe: resource temporarily unavailable"}],"isError":true,"resultType":"complete"}}`)
	w.send(`{"jsonrpc":"2.0","id":2,"method":"resources/list","params":{` + meta + `}}`)
	w.is(`{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"The server could not be started: fork/exec /proc/self/exe: resource temporarily unavailable"}}`)
	w.mu.Lock()
	w.refuse = nil
	w.mu.Unlock()
	w.initialize()
	w.send(toolCall("3", "who"))
	w.is(answered("3", "engine 1 of me"))
}

// After three deaths within ten seconds calls are refused for ten seconds, with the reason. Deaths
// that are further apart do not count.
func TestRefusesAfterDeaths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memoryConn, memory)
		w.initialize()
		dies := func() {
			w.send(toolCall("1", "gate"))
			<-w.calls.entered
			w.last().conn.Close()
			w.is(failed("1"))
		}
		for range 2 * deathsAllowed {
			dies()
			time.Sleep(refusalTime/2 + time.Millisecond)
		}
		time.Sleep(refusalTime)
		for range deathsAllowed - 1 {
			dies()
		}
		engines := len(w.all()) + 1
		until := time.Now().Add(refusalTime)
		w.send(toolCall("1", "gate"))
		<-w.calls.entered
		w.last().conn.Close()
		w.is(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"The server died during this call (signal: killed), with its running jobs and its variables. It has died 3 times within 10s: calls are refused until ` +
			until.Format(time.TimeOnly) + `, and the first one after that starts it again; list_jobs then shows what became of the jobs."}],"isError":true}}`)
		for range 2 {
			w.send(toolCall("1", "who"))
			w.is(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"The server died 3 times within 10s (signal: killed). Calls are refused until ` +
				until.Format(time.TimeOnly) + `; then the next one starts it again."}],"isError":true}}`)
			time.Sleep(refusalTime - time.Millisecond)
		}
		if n := len(w.all()); n != engines {
			t.Errorf("%d engines were attached meanwhile", n-engines)
		}
		time.Sleep(2 * time.Millisecond)
		w.send(toolCall("1", "who"))
		w.is(answered("1", fmt.Sprintf("engine %d of me", engines+1)))
	})
}

// A cancelled call is not answered, its id is free at once, and neither the end of input nor the
// death of an engine waits for it.
func TestCancel(t *testing.T) {
	for _, id := range []string{"7", "7.0", `"\u0000\ud800"`} {
		t.Run(id, func(t *testing.T) {
			w := start(t)
			w.initialize()
			for range 3 {
				w.send(toolCall(id, "gate"))
				<-w.calls.entered
				w.send(cancelled(id))
			}
			w.send(toolCall(id, "who"))
			w.is(answered(id, "engine 1 of me"))
			w.last().conn.Close()
			w.leave()
			if got := w.rest(); len(got) > 0 {
				t.Errorf("got %s", got)
			}
		})
	}
}

// At the end of input the engine learns at once that the client leaves. Calls in flight are
// answered as before.
func TestEndOfInput(t *testing.T) {
	w := start(t)
	w.initialize()
	w.send(toolCall("1", "gate"))
	<-w.calls.entered
	w.send(toolCall("2", "echo"))
	w.leave()
	w.is(answered("2", `{"id":2}`))
	polltest.Until(t, "the goodbye", func() bool { return len(w.last().goodbyes()) == 1 })
	close(w.calls.open)
	if got := w.rest(); len(got) != 1 || got[0] != answered("1", "opened") {
		t.Errorf("got %s", got)
	}
	w.last().said(t, sockets.Goodbye)
}

// An engine that ends with its client and does not answer a call has not died.
func TestEngineThatEndsWithoutAnAnswer(t *testing.T) {
	w := start(t)
	w.initialize()
	w.send(toolCall("1", "gate"))
	<-w.calls.entered
	w.leave()
	polltest.Until(t, "the goodbye", func() bool { return len(w.last().goodbyes()) == 1 })
	w.last().conn.Close()
	w.is(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"The server is ending."}],"isError":true}}`)
}

// Calls that are in flight for too long after the end of input are answered with the current
// status.
func TestEndOfInputIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memoryConn, memory)
		w.initialize()
		w.send(toolCall("1", "gate"))
		<-w.calls.entered
		begun := time.Now()
		w.leave()
		if got := w.rest(); len(got) != 1 || got[0] != answered("1", "current status") {
			t.Errorf("got %s", got)
		}
		if took := time.Since(begun); took != 5*time.Second {
			t.Errorf("it took %v", took)
		}
		w.last().said(t, sockets.Goodbye, sockets.GoodbyeNow)
	})
}

// After a signal calls in flight are answered at once, and no message is passed on.
func TestSignal(t *testing.T) {
	w := start(t)
	w.initialize()
	w.send(toolCall("1", "gate"))
	<-w.calls.entered
	w.cut()
	w.is(answered("1", "current status"))
	w.last().said(t, sockets.GoodbyeNow)
}

// Once input has ended and a signal has come, in whichever order, nothing more is written: some
// clients have freed the reader of the answers then.
func TestNothingIsWrittenAfterTheEndAndASignal(t *testing.T) {
	for name, ends := range map[string][]func(*world){
		"end first":    {(*world).leave, func(w *world) { w.cut() }},
		"signal first": {func(w *world) { w.cut() }, (*world).leave},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, memoryConn, memory)
				w.initialize()
				w.send(toolCall("1", "gate"))
				<-w.calls.entered
				w.calls.hold = make(chan struct{})
				for _, end := range ends {
					end(w)
					synctest.Wait()
				}
				close(w.calls.hold)
				if got := w.rest(); len(got) > 0 {
					t.Errorf("got %s", got)
				}
			})
		})
	}
}

// A client that is gone is lost: the engine gets no goodbye, and the front does not wait for it.
func TestLoss(t *testing.T) {
	for name, loss := range map[string]func(w *world){
		"end of input": (*world).leave,
		"no reader": func(w *world) { // the client reads no more, and sends on
			w.out.(stream).ReadCloser.Close()
			w.send(`{"jsonrpc":"2.0","id":3,"method":"ping"}`, toolCall("4", "echo"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t)
			w.initialize()
			w.send(toolCall("1", "gate"))
			<-w.calls.entered
			w.lost.Store(true)
			loss(w)
			if err := <-w.served; err != nil {
				t.Error(err)
			}
			w.served <- nil // Cleanup reads it, too
			w.last().said(t)
		})
	}
}

// A signal that comes while an engine starts is a goodbye to it.
func TestSignalDuringTheStart(t *testing.T) {
	w := start(t)
	w.initialize()
	w.mu.Lock() // Attach waits for it
	w.send(toolCall("1", "gate"))
	w.cut()
	w.mu.Unlock()
	for _, line := range w.rest() {
		if !strings.Contains(line, "The server is ending.") {
			t.Errorf("got %s", line)
		}
	}
}
