package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestMain lets the test binary play the server of TestLaunch.
func TestMain(m *testing.M) {
	switch os.Getenv(playServer) {
	case "":
		os.Exit(m.Run())
	case "refuses":
		os.Exit(3)
	}
	fake(os.Stdin, os.Stdout, func(r request) string { return r.text("Status: completed\n\nhello") })
}

const playServer = "ASYNC_REPL_TEST_PLAY_SERVER"

// A request is what the fake server is sent.
type request struct {
	ID     int    `json:"id"`
	Method string `json:"method"`
	Params struct {
		Name      string
		Arguments map[string]any
	}
}

func (r request) text(s string) string {
	text, _ := json.Marshal(s)
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":%s}]}}`, r.ID, text)
}

// fake is a server: it writes answer's line, if any, for each line of r that has an id.
func fake(r io.Reader, w io.Writer, answer func(request) string) {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		var req request
		if json.Unmarshal(lines.Bytes(), &req) != nil || req.ID == 0 {
			continue
		}
		if line := answer(req); line != "" {
			fmt.Fprintln(w, line)
		}
	}
}

// connect returns a client of a fake server, and what closes the server's output.
func connect(t *testing.T, answer func(request) string) (*Client, io.Closer) {
	t.Helper()
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	go fake(fromClient, toClient, answer) // ends with the test
	t.Cleanup(func() {
		toServer.Close()
		toClient.Close()
	})
	return New(fromServer, toServer), toClient
}

func ctx(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestReply(t *testing.T) {
	for name, test := range map[string]struct {
		result string // of the call
		want   Reply
		err    string
	}{
		"text":       {`"result":{"content":[{"type":"text","text":"a"}]}`, "a", ""},
		"an image":   {`"result":{"content":[{"type":"text","text":"a"},{"type":"image","data":"AA==","mimeType":"image/png"}]}`, "a", ""},
		"no content": {`"result":{"content":[]}`, "", ""},
		"tool error": {`"result":{"content":[{"type":"text","text":"no such job"}],"isError":true}`, "", "greet: tool error: no such job"},
		"rpc error":  {`"error":{"code":-32602,"message":"bad"}`, "", "greet: error -32602: bad"},
		"no object":  {`"result":[]`, "", "greet: json:"},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := connect(t, func(r request) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,%s}`, r.ID, test.result) })
			got, err := c.Call(ctx(t), "greet", nil)
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if text := fmt.Sprint(err); test.err == "" && err != nil || !strings.HasPrefix(text, test.err) {
				t.Errorf("error %q, want %q", text, test.err)
			}
			if tool := strings.Contains(test.err, "tool error"); errors.Is(err, ErrTool) != tool {
				t.Errorf("errors.Is(%q, ErrTool) is %t", err, !tool)
			}
		})
	}
}

// Each call gets its own answer, in whatever order the answers come.
func TestAnswersOutOfOrder(t *testing.T) {
	const calls = 50
	var mu sync.Mutex
	var held []string
	c, _ := connect(t, func(r request) string {
		mu.Lock()
		defer mu.Unlock()
		held = append(held, r.text(fmt.Sprint(r.Params.Arguments["n"])))
		if len(held) < calls {
			return ""
		}
		var all strings.Builder
		for i := range held {
			fmt.Fprintln(&all, held[len(held)-1-i])
			fmt.Fprintln(&all, `{"jsonrpc":"2.0","method":"notifications/progress"}`)
			fmt.Fprintln(&all, r.text("an answer that was given before")) // its call is no longer known
		}
		return strings.TrimSuffix(all.String(), "\n")
	})
	var group sync.WaitGroup
	for n := range calls {
		group.Go(func() {
			r, err := c.Call(ctx(t), "count", map[string]any{"n": n})
			if err != nil || string(r) != fmt.Sprint(n) {
				t.Errorf("call %d: %q, %v", n, r, err)
			}
		})
	}
	group.Wait()
}

// When the server's output ends, calls in flight fail, and so do later ones.
func TestServerCloses(t *testing.T) {
	for name, last := range map[string]string{
		"end of output": "the server closed its output: EOF",
		"not a message": `the server wrote a line that is not a message: "hello\n"`,
	} {
		t.Run(name, func(t *testing.T) {
			var out io.Closer
			c, closer := connect(t, func(request) string {
				if name == "not a message" {
					return "hello"
				}
				out.Close()
				return ""
			})
			out = closer
			for range 2 {
				if _, err := c.Call(ctx(t), "greet", nil); err == nil || err.Error() != last {
					t.Errorf("error %v, want %s", err, last)
				}
			}
		})
	}
}

// A caller that stops waiting gets its context's error; the client serves on.
func TestCallerStopsWaiting(t *testing.T) {
	c, _ := connect(t, func(r request) string {
		if r.Params.Name == "slow" {
			return ""
		}
		return r.text("quick")
	})
	p, err := c.Start("slow", nil)
	if err != nil {
		t.Fatal(err)
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Reply(stopped); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if r, err := c.Call(ctx(t), "quick", nil); err != nil || r != "quick" {
		t.Errorf("then %q, %v", r, err)
	}
}

func TestLaunch(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Launch(exec.Command(self + "-is-not-there")); err == nil {
		t.Error("a program that is not there was started")
	}
	for play, want := range map[string]string{"answers": "<nil>", "refuses": "the server: exit status 3"} {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), playServer+"="+play)
		p, err := Launch(cmd)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Initialize(ctx(t)); (err == nil) != (play == "answers") {
			t.Errorf("%s: %v", play, err)
		}
		if got := fmt.Sprint(p.Close()); got != want {
			t.Errorf("%s: closed with %q, want %q", play, got, want)
		}
	}
}

// A server whose client vanishes finds at the end of its input that its output has no reader. After Close it
// still has one.
func TestVanish(t *testing.T) {
	launch := func() *Process {
		p, err := Launch(exec.Command("sh", "-c", "cat >/dev/null; echo the end"))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if err := launch().Vanish(); err == nil {
		t.Error("the output of the server had a reader")
	}
	if err := launch().Close(); err != nil {
		t.Error(err)
	}
}

func ExampleReply() {
	r := Reply("Job ID: 01K9\nStatus: completed\n\n--- STDOUT ---\nhello\n--- RESULT ---\n42\n")
	fmt.Println(r.Header("Status"))
	fmt.Printf("%q %q %q\n", r.Section("STDOUT"), r.Section("RESULT"), r.Section("STDERR"))
	fmt.Println(r.Expect("completed", "42"), r.Expect("running"), r.Expect("completed", "43"))
	// Output:
	// completed
	// "hello" "42\n" ""
	// <nil> status is "completed", not "running" the reply does not contain "43"
}
