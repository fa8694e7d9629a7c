package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/internal/test/racetest"
)

// A hostile client writes and reads whatever it likes. The test checks the answers line by line.
type hostile struct {
	*started
	t     *testing.T
	lines *bufio.Reader
	job   int // the process that runs has seen
}

// newHostile starts a server and initializes the connection.
func newHostile(t *testing.T, env ...string) *hostile {
	t.Helper()
	s := startProcess(t, append(env, "REPL_PYTHON=python3")...)
	h := &hostile{started: s, t: t, lines: bufio.NewReader(s.out)}
	h.say(`{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"h","version":"1"}}}`)
	h.answer(`"hello"`)
	h.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return h
}

func (h *hostile) say(lines ...string) {
	h.t.Helper()
	if _, err := io.WriteString(h.stdin, strings.Join(lines, "\n")+"\n"); err != nil {
		h.t.Fatal(err)
	}
}

// An outcome is an answer as far as a hostile client checks it.
type outcome struct {
	ID    json.RawMessage
	Error *struct{ Code int }
	text  string // of a tool
}

// next returns the next answer.
func (h *hostile) next() outcome {
	h.t.Helper()
	h.out.SetReadDeadline(time.Now().Add(patience))
	for {
		line, err := h.lines.ReadBytes('\n')
		if err != nil {
			h.t.Fatalf("%v: %q", err, line)
		}
		var m struct {
			outcome
			Result struct{ Content []struct{ Text string } }
		}
		if err := json.Unmarshal(line, &m); err != nil {
			h.t.Fatalf("%v: %q", err, line)
		}
		if m.ID == nil {
			continue // a notification
		}
		if len(m.Result.Content) > 0 {
			m.text = m.Result.Content[0].Text
		}
		return m.outcome
	}
}

// answer returns the answer with that id, and the codes of the errors that came before it.
func (h *hostile) answer(id string) (o outcome, before []int) {
	h.t.Helper()
	for {
		o := h.next()
		if string(o.ID) == id {
			return o, before
		}
		if o.Error != nil {
			before = append(before, o.Error.Code)
		}
	}
}

// ping fails unless the server still answers.
func (h *hostile) ping(id string) (before []int) {
	h.t.Helper()
	h.say(`{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`)
	o, before := h.answer(id)
	if o.Error != nil {
		h.t.Fatalf("ping: error %d", o.Error.Code)
	}
	return before
}

func toolCall(id, tool string, args ...any) string {
	b, err := json.Marshal(pairs(args))
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, tool, b)
}

// appears waits until a file of the workspace holds text.
func (h *hostile) appears(name, text string) {
	h.t.Helper()
	polltest.Check(h.t, func() error {
		b, _ := os.ReadFile(filepath.Join(h.dir, name))
		if strings.Contains(string(b), text) {
			return nil
		}
		return fmt.Errorf("%s never held %q: %.200q\nlog: %s", name, text, b, h.log)
	})
}

// runs waits until a job has written its pid to the file "pid".
func (h *hostile) runs() {
	h.t.Helper()
	h.appears("pid", "\n")
	b, err := os.ReadFile(filepath.Join(h.dir, "pid"))
	if err != nil {
		h.t.Fatal(err)
	}
	fmt.Sscan(string(b), &h.job)
	h.job = h.seen(h.job)
}

// ends waits until the server has exited, and the process that runs has seen, too.
func (h *hostile) ends() {
	h.t.Helper()
	if got := h.exit(); got != "exit status 0" {
		h.t.Errorf("the server: %s", got)
	}
	gone(h.t, []int{h.job})
}

// peakToTheEnd waits for the server's exit and returns the most memory that it used, in KiB.
func (h *hostile) peakToTheEnd() (kib int) {
	h.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); <-time.After(5 * time.Millisecond) {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", h.inner()))
		_, rest, ok := strings.Cut(string(b), "VmHWM:")
		if !ok {
			return kib // it is a zombie
		}
		fmt.Sscan(rest, &kib)
	}
	h.t.Fatal("the server does not end")
	return 0
}

// lives starts a job that writes its pid to the file "pid" and sleeps.
func (h *hostile) lives() {
	h.t.Helper()
	h.say(toolCall(`"lives"`, "execute_command_async", "command", "echo $$ > pid; exec sleep 300", "wait_seconds", 0))
	h.runs()
}

// TestLoadGarbage sends lines that no client should send. Each costs at most an error, and the next
// call is answered.
func TestLoadGarbage(t *testing.T) {
	if testing.Short() {
		t.Skip("sends tens of megabytes")
	}
	t.Parallel()
	h := newHostile(t)
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for i, tt := range []struct {
		name, text string
		want       []int // codes of errors
	}{
		{"half of a message", `{"jsonrpc":"2.0","id":1,"method":"tools/ca` + "\n", []int{-32700}},
		{"the other half", `ll","params":{}}` + "\n", []int{-32700}},
		{"not UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\xfe\"}\n", []int{-32700}},
		{"NULs", "\x00\x00\x00\n", []int{-32700}},
		{"UTF-16", "{\x00\"\x00\n\x00\n", []int{-32700, -32700}},
		{"brackets without end", strings.Repeat("[", 1_000_000) + "\n", []int{-32700}},
		{"nested too deep", deep(200_000) + "\n", []int{-32700}},
		{"nested deep in arguments", `{"jsonrpc":"2.0","id":"deep","method":"tools/call","params":{"name":"list_jobs","arguments":{"limit":` + deep(9000) + "}}}\n", []int{-32602}},
		{"a batch", `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]` + "\n", []int{-32600}},
		{"an empty batch", "[]\n", []int{-32600}},
		{"a string", `"hello"` + "\n", []int{-32600}},
		{"a huge id", `{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 2<<20) + `","method":"ping"}` + "\n", []int{-32600}},
		{"a huge number", `{"jsonrpc":"2.0","id":` + strings.Repeat("9", 1<<20) + `,"method":"ping"}` + "\n", []int{-32600}},
		{"a huge method", `{"jsonrpc":"2.0","id":"method","method":"` + strings.Repeat("x", 2<<20) + `"}` + "\n", []int{-32601}},
		{"a parameter with a huge name", `{"jsonrpc":"2.0","method":"nothing","params":{"` + strings.Repeat("x", 2<<20) + `":1}}` + "\n", nil},
		{"of the era to come", `{"jsonrpc":"2.0","id":"era","method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2099-01-01","io.modelcontextprotocol/clientCapabilities":{}}}}` + "\n", []int{-32022}},
		{"a second handshake", `{"jsonrpc":"2.0","id":"again","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"h","version":"1"}}}` + "\n", nil},
		{"what servers say", `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` + "\n", nil},
		{"answers to nothing", strings.Repeat(`{"jsonrpc":"2.0","id":1,"result":{}}`+"\n", 2000), nil},
		{"cancels of nothing", strings.Repeat(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}}`+"\n", 2000), nil},
		{"empty lines", strings.Repeat("\r\n", 100_000), nil},
		{"a line of blanks of 20 MiB", strings.Repeat(" ", 20<<20) + "\n", []int{-32600}},
		{"20 MiB in a line", toolCall(`"big"`, "execute_python", "code", strings.Repeat("#", 20<<20)) + "\n", []int{-32600}},
	} {
		if _, err := io.WriteString(h.stdin, tt.text); err != nil {
			t.Fatal(err)
		}
		var got []int
		for range tt.want {
			if o := h.next(); o.Error != nil {
				got = append(got, o.Error.Code)
			}
		}
		got = append(got, h.ping(fmt.Sprintf(`"after %d"`, i))...)
		if fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("%s: errors %v, want %v", tt.name, got, tt.want)
		}
	}
	kib := peak(t, h.inner())
	t.Logf("the server had %d KiB", kib)
	if kib > 100_000*racetest.Memory {
		t.Errorf("the server had %d KiB", kib)
	}
	h.lives()
	h.stdin.Close()
	h.ends()
}

// TestLoadClientThatReadsNothing makes calls and reads no answer. Its jobs continue, the memory for its
// answers is bounded, and its end is noticed.
func TestLoadClientThatReadsNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("waits until the server stops waiting for its client")
	}
	for name, end := range map[string]func(h *hostile){
		"end of input":     func(h *hostile) { h.stdin.Close() },
		"end of the reads": func(h *hostile) { h.out.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHostile(t)
			h.lives()
			flood := toolCall(`"flood"`, "execute_command_async", "command", "yes | head -c 100000; echo done > flooded; exec sleep 300", "wait_seconds", 0)
			h.say(flood)
			o, _ := h.answer(`"flood"`)
			h.appears("flooded", "done")
			for i := range 40 { // 2 MB of answers: those that do not fit into the queue wait
				h.say(toolCall(fmt.Sprint(i), "check_job_status", "job_id", client.Reply(o.text).Header("Job ID"), "cursor", 0, "max_chars", 45000))
			}
			// Calls take effect in order: when this one does, the others have.
			h.say(toolCall(`"last"`, "execute_command_async", "command", "echo on > went", "wait_seconds", 0))
			h.appears("went", "on")
			end(h)
			kib := h.peakToTheEnd()
			t.Logf("the server had %d KiB", kib)
			if kib > 100_000*racetest.Memory {
				t.Errorf("the server had %d KiB", kib)
			}
			h.ends()
		})
	}
}

// TestClientThatWritesByByte writes one message a byte at a time. A job continues meanwhile.
func TestClientThatWritesByByte(t *testing.T) {
	t.Parallel()
	h := newHostile(t)
	h.say(toolCall(`"ticks"`, "execute_command_async", "command", "echo $$ > pid; while :; do echo >> ticks; sleep 0.01; done", "wait_seconds", 0))
	h.answer(`"ticks"`)
	h.runs()
	h.appears("ticks", "\n")
	call := toolCall(`"slow"`, "execute_command_async", "command", "echo said", "wait_seconds", 60) + "\n"
	for i := range len(call) {
		if i%16 == 0 {
			b, err := os.ReadFile(filepath.Join(h.dir, "ticks"))
			if err != nil {
				t.Fatal(err)
			}
			h.appears("ticks", string(b)+"\n")
		}
		if _, err := io.WriteString(h.stdin, call[i:i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if o, _ := h.answer(`"slow"`); !strings.HasSuffix(o.text, "\nsaid\n") {
		t.Errorf("answer: %s", o.text)
	}
	io.WriteString(h.stdin, call[:len(call)/2]) // the client leaves in the middle of a line
	h.stdin.Close()
	if o := h.next(); string(o.ID) != "null" || o.Error == nil || o.Error.Code != -32700 {
		t.Errorf("half a line at the end: %+v", o)
	}
	h.ends()
}

// TestClientThatCancelsEverything cancels every call at once. Jobs that have begun continue,
// nothing is answered, and the ids can be used again.
func TestClientThatCancelsEverything(t *testing.T) {
	t.Parallel()
	h := newHostile(t)
	h.lives()
	h.answer(`"lives"`)
	const calls = 150
	for i := range calls {
		id := fmt.Sprint(i)
		h.say(toolCall(id, "execute_command_async", "command", "echo "+id+" >> begun", "wait_seconds", 60),
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+`}}`)
	}
	// Each job ends and has left its line. A call that was cancelled before it began has neither.
	for end := time.Now().Add(patience); ; {
		h.say(toolCall(`"list"`, "list_jobs", "limit", 200))
		o, before := h.answer(`"list"`)
		if len(before) > 0 {
			t.Fatalf("errors %v", before)
		}
		begun, _ := os.ReadFile(filepath.Join(h.dir, "begun"))
		jobs := strings.Count(o.text, ", shell") - 1 // without the one that lives
		if strings.Count(o.text, " completed, shell, ") == jobs {
			if lines := bytes.Count(begun, []byte("\n")); lines != jobs {
				t.Errorf("%d jobs, %d lines", jobs, lines)
			}
			break
		}
		if time.Now().After(end) {
			t.Fatalf("not all jobs have ended:\n%s", o.text)
		}
	}
	for i := range calls {
		h.ping(fmt.Sprint(i))
	}
	h.stdin.Close()
	h.ends()
}

// TestManyCallsInFlight makes many calls that wait for the same event.
func TestManyCallsInFlight(t *testing.T) {
	t.Parallel()
	h := newHostile(t)
	h.say(toolCall(`"ask"`, "execute_command_async", "command", "read -r x; echo got $x", "wait_seconds", 60))
	o, _ := h.answer(`"ask"`)
	id := client.Reply(o.text).Header("Job ID")
	h.say(toolCall(`"go"`, "send_command_input", "job_id", id, "text", "", "wait_seconds", 0))
	h.answer(`"go"`)
	h.say(toolCall(`"other"`, "execute_command_async", "command", "echo $$ > pid; exec sleep 300", "wait_seconds", 0))
	o, _ = h.answer(`"other"`)
	other := client.Reply(o.text).Header("Job ID")
	h.runs()
	const calls = 200
	for i := range calls {
		h.say(toolCall(fmt.Sprint(i), "check_job_status", "job_id", other, "wait_seconds", 100))
	}
	if before := h.ping(`"between"`); len(before) > 0 {
		t.Errorf("errors %v", before)
	}
	h.say(toolCall(`"answer"`, "send_command_input", "job_id", id, "text", "it\n", "wait_seconds", 60))
	if o, _ := h.answer(`"answer"`); !strings.Contains(o.text, "got it") {
		t.Errorf("answer: %s", o.text)
	}
	h.say(toolCall(`"end"`, "cancel_job", "job_id", other, "force", true))
	seen := 0
	for range calls + 1 {
		if o := h.next(); strings.Contains(o.text, "Status: cancelled") {
			seen++
		}
	}
	if seen != calls+1 {
		t.Errorf("%d of %d calls reported the end", seen, calls+1)
	}
	h.stdin.Close()
	h.ends()
}
