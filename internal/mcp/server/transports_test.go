package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/mcp/stdio"
	"asyncrepl/internal/reply/report"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// transports connect a server over each transport and return the client's end. leave ends the waits
// of the server's calls.
var transports = map[string]func(t *testing.T, s *mcp.Server, leave func()) mcp.Transport{
	"stdio": func(t *testing.T, s *mcp.Server, leave func()) mcp.Transport {
		inR, inW := io.Pipe()
		outR, outW := io.Pipe()
		serveOver(t, s, &stdio.Transport{Stream: duplex{inR, outW}, Ordered: true, Leave: leave})
		return &mcp.IOTransport{Reader: outR, Writer: inW}
	},
	"in memory": func(t *testing.T, s *mcp.Server, _ func()) mcp.Transport {
		server, client := mcp.NewInMemoryTransports()
		serveOver(t, s, server)
		return client
	},
	"http": func(t *testing.T, s *mcp.Server, _ func()) mcp.Transport {
		// No one handler of the SDK serves both eras.
		get := func(*http.Request) *mcp.Server { return s }
		newer := mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true})
		older := mcp.NewStreamableHTTPHandler(get, nil)
		h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Mcp-Protocol-Version") >= "2026-07-28" {
				newer.ServeHTTP(w, r)
			} else {
				older.ServeHTTP(w, r)
			}
		}))
		t.Cleanup(h.Close)
		return &mcp.StreamableClientTransport{Endpoint: h.URL}
	},
}

// A duplex is one end of two pipes.
type duplex struct {
	io.ReadCloser
	io.WriteCloser
}

func (d duplex) Close() error { return errors.Join(d.ReadCloser.Close(), d.WriteCloser.Close()) }

// serveOver connects the server, and waits in the end until the client's end of the session ends
// it.
func serveOver(t *testing.T, s *mcp.Server, transport mcp.Transport) {
	t.Helper()
	session, err := s.Connect(context.Background(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Wait() })
}

// connectSDK connects a client of the SDK that speaks that version of the protocol.
func connectSDK(t *testing.T, transport mcp.Transport, version string) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "0"}, nil)
	session, err := client.Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	if got := session.InitializeResult().ProtocolVersion; got != version {
		t.Fatalf("the protocol is %s, not %s", got, version)
	}
	return session
}

// A dialogue is an SDK client that calls every tool over one transport.
type dialogue struct {
	*world
	t       *testing.T
	session *mcp.ClientSession
	called  []string
}

// call returns the text of an answer.
func (d *dialogue) call(ctx context.Context, tool string, a given) string {
	d.t.Helper()
	d.called = append(d.called, tool)
	if a == nil {
		a = given{}
	}
	r, err := d.session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: a})
	if err != nil {
		d.t.Fatalf("%s: %v", tool, err)
	}
	text := r.Content[0].(*mcp.TextContent).Text
	if r.IsError {
		d.t.Errorf("%s is refused: %s", tool, text)
	}
	return text
}

// says fails unless the text of an answer has all of the parts.
func (d *dialogue) says(text string, parts ...string) {
	d.t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			d.t.Errorf("the answer lacks %q:\n%s", p, text)
		}
	}
}

// TestEveryToolOverEveryTransport calls all tools over stdio, the SDK's in-memory transport and its
// HTTP handlers, in three versions of the protocol. Only stdio promises an order of calls, and only
// there a cancelled call has no answer: neither is expected here.
func TestEveryToolOverEveryTransport(t *testing.T) {
	t.Parallel()
	for name, connect := range transports {
		for _, version := range []string{"2026-07-28", "2025-11-25", "2025-06-18"} {
			t.Run(name+" "+version, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.config.Toolsets = toolsets
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				c := newConn(w.config, w.scope(engine.Scope{}))
				all := append(slices.Clone(sharedTools(c.defaults())), drawTool)
				c.tools = func(defaults) []*tool { return all }
				session := connectSDK(t, connect(t, c.server(ctx), leave), version)
				d := &dialogue{world: w, t: t, session: session}
				d.callTools(ctx)
				d.cancel()
				d.leave(leave)
				list, err := session.ListTools(t.Context(), nil)
				if err != nil || len(list.Tools) != len(all) {
					t.Fatal(err, len(list.Tools))
				}
				for _, tool := range list.Tools {
					if !slices.Contains(d.called, tool.Name) {
						t.Errorf("%s was not called", tool.Name)
					}
				}
			})
		}
	}
}

// blockOf returns a block with that data.
func blockOf(mimeType, data string) report.Block {
	return report.Block{MIMEType: mimeType, Size: len(data), Read: func() ([]byte, error) { return []byte(data), nil }}
}

// drawTool answers with an image besides its text.
var drawTool = &tool{
	name: "draw", toolset: core,
	definition: &definition{Tool: &mcp.Tool{Name: "draw", InputSchema: map[string]any{"type": "object"}}},
	call: func(*call, context.Context) (*report.Reply, error) {
		r := report.Textf("A picture")
		r.Blocks = append(r.Blocks, blockOf("image/png", "\x89PNG"))
		return r, nil
	},
}

// callTools calls each tool at least once.
func (d *dialogue) callTools(ctx context.Context) {
	d.t.Helper()
	d.says(d.call(ctx, "execute_python", given{"code": `result "3"`}), "Status: completed", "--- RESULT ---\n3")
	d.says(d.call(ctx, "list_variables", nil), "No variables in session default.")
	d.says(d.call(ctx, "get_variable", given{"name": `result "7"`}), "Status: completed", "--- RESULT ---\n7")
	d.says(d.call(ctx, "set_variable", given{"name": "x", "value": []int{1}}), "Status: completed")
	d.says(d.call(ctx, "delete_variables", given{"names": []string{"x"}}), "Status: completed")
	d.says(d.call(ctx, "inspect_object", given{"name": `result "doc"`}), "--- RESULT ---\ndoc")
	d.says(d.call(ctx, "complete_code", given{"code": `result "x"`}), "--- RESULT ---\nx")
	d.says(d.call(ctx, "install_package_async", given{"package": "six"}), "installed six for default")
	d.histories["default"] = engine.History{Entries: []engine.Entry{{Job: "1", Work: engine.Work{Code: "3"}}}}
	d.says(d.call(ctx, "export_session", given{"path": "x.py"}), "Exported: ")
	asks := field(d.call(ctx, "execute_python", given{"code": `ask line "Name? "`, "wait_seconds": 60}), "Job ID")
	d.says(d.call(ctx, "check_python_status", nil), asks, "Status: waiting_input", "Prompt: Name?")
	d.says(d.call(ctx, "send_python_input", given{"text": "x", "wait_seconds": 60}), "Status: completed")
	shell := field(d.call(ctx, "execute_command_async", given{"command": code(`ask line "$ "`, "hang"), "wait_seconds": 60}), "Job ID")
	d.says(d.call(ctx, "send_command_input", given{"job_id": shell, "text": "x\n", "wait_seconds": 0}), "Input: delivered")
	d.says(d.call(ctx, "search_job_output", given{"job_id": shell, "pattern": `\$`}), "Matches: 1\n", "\n\nstdout 0: $ ")
	d.says(d.call(ctx, "list_jobs", nil), asks, shell)
	d.says(d.call(ctx, "cancel_job", given{"job_id": shell}), "Status: cancelled")
	d.says(d.call(ctx, "restart_python_worker", nil), "Restarted: yes")
	d.says(d.call(ctx, "server_status", nil), "Version: test")
	d.says(d.call(ctx, "create_session", given{"name": "lab"}), "Session: new")
	d.says(d.call(ctx, "list_sessions", nil), "Sessions: 2 of at most 50", "\nlab, no Python runs, ")
	d.says(d.call(ctx, "delete_session", given{"session": "lab"}), "Session: lab", "Deleted: yes")

	d.says(d.call(ctx, "write_file", given{"path": "dir/a", "content": "one"}), "Written: dir/a, 3 bytes, new")
	d.says(d.call(ctx, "edit_file", given{"path": "dir/a", "old": "one", "new": "two"}), "Edited: dir/a, 1 place: line 1")
	d.says(d.call(ctx, "read_file", given{"path": "dir/a"}), "File: dir/a, 3 bytes\n\ntwo")
	d.says(d.call(ctx, "list_files", given{"path": "dir"}), "Entries: 1\n\ndir/a\n")
	d.says(d.call(ctx, "delete_file", given{"path": "dir/a"}), "Deleted: dir/a")

	gate := field(d.call(ctx, "execute_command_async", given{"command": "gate end", "wait_seconds": 0}), "Job ID")
	d.open("end")
	jobstest.End(d.t, d.job("Job ID: "+gate+"\n"))
	d.says(d.call(ctx, "check_job_status", given{"job_id": shell}), "Also: job "+gate+" completed")
	if again := d.call(ctx, "check_job_status", given{"job_id": shell}); field(again, "Also") != "" {
		d.t.Errorf("the end of a job is announced twice:\n%s", again)
	}
	d.says(d.call(ctx, "wait_for_jobs", given{"job_ids": []string{gate, shell}, "until": "all"}), "Condition: met")

	d.called = append(d.called, "draw")
	r, err := d.session.CallTool(ctx, &mcp.CallToolParams{Name: "draw", Arguments: given{}})
	if err != nil || len(r.Content) != 2 {
		d.t.Fatal(err, r)
	}
	if image, ok := r.Content[1].(*mcp.ImageContent); !ok || image.MIMEType != "image/png" || !bytes.Equal(image.Data, []byte("\x89PNG")) {
		d.t.Errorf("the image came as %#v", r.Content[1])
	}
}

// cancel ends a call, not its job.
func (d *dialogue) cancel() {
	d.t.Helper()
	begun := d.nextJob()
	ctx, cancel := context.WithCancel(d.t.Context())
	done := make(chan error)
	go func() { // owned by the test, which waits for it
		_, err := d.session.CallTool(ctx, &mcp.CallToolParams{Name: "execute_python", Arguments: given{"code": "gate cancelled", "wait_seconds": 100}})
		done <- err
	}()
	j := d.job("Job ID: " + <-begun + "\n")
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		d.t.Errorf("the cancelled call returned %v", err)
	}
	d.open("cancelled")
	if s := jobstest.End(d.t, j).Status; s != jobs.Completed {
		d.t.Errorf("the job of the cancelled call is %s", s)
	}
}

// leave ends the wait of a call, which is answered with the current status.
func (d *dialogue) leave(leave func()) {
	d.t.Helper()
	begun := d.nextJob()
	answer := make(chan string)
	go func() { // owned by the test, which waits for it
		defer close(answer)
		r, err := d.session.CallTool(d.t.Context(), &mcp.CallToolParams{Name: "execute_python", Arguments: given{"code": "gate left", "wait_seconds": 100}})
		if err == nil {
			answer <- r.Content[0].(*mcp.TextContent).Text
		}
	}()
	j := d.job("Job ID: " + <-begun + "\n")
	leave()
	select {
	case text := <-answer:
		d.says(text, "Status: running")
	case <-time.After(jobstest.Patience):
		d.t.Fatal("the call still waits")
	}
	d.open("left")
	jobstest.End(d.t, j)
}
