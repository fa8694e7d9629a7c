package mcpserver

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/txtar"

	"asyncrepl/jobs/jobstest"
)

// TestWire plays testdata/wire: lines sent, in which ID1 stands for the first id
// that was received, and the one line received after
// them, word for word but for ids, lengths of time and times of day.
func TestWire(t *testing.T) {
	files, err := filepath.Glob("testdata/wire/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			c := newWorld(t).connect(t.Context(), Scope{})
			var p plainer
			for i, f := range archive.Files {
				if f.Name == "send" {
					if _, err := c.conn.Write([]byte(p.ids(string(f.Data)))); err != nil {
						t.Fatal(err)
					}
					continue
				}
				c.conn.SetReadDeadline(time.Now().Add(jobstest.Patience))
				line, err := c.lines.ReadBytes('\n')
				if err != nil {
					t.Fatal(err)
				}
				got := []byte(p.plain(string(line)))
				if !*update && !bytes.Equal(f.Data, got) {
					t.Errorf("section %d:\ngot  %swant %s", i+1, got, f.Data)
				}
				archive.Files[i].Data = got
			}
			if *update {
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestSDKClient speaks to the server as clients built on an SDK do.
func TestSDKClient(t *testing.T) {
	for _, version := range []string{"2026-07-28", "2025-11-25", "2025-06-18"} {
		t.Run(version, func(t *testing.T) {
			w := newWorld(t)
			raw := w.connect(t.Context(), Scope{})
			client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "0"}, nil)
			session, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: raw.conn, Writer: raw.conn},
				&mcp.ClientSessionOptions{ProtocolVersion: version})
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			info := session.InitializeResult()
			if info.Capabilities.Tools == nil || info.Capabilities.Tools.ListChanged { // TestWire has them all
				t.Errorf("capabilities %+v", info.Capabilities)
			}
			if info.Instructions != instructions || info.ServerInfo.Name != "async-repl" {
				t.Errorf("server %+v, instructions %q", info.ServerInfo, info.Instructions)
			}
			list, err := session.ListTools(t.Context(), nil)
			if err != nil || len(list.Tools) != 13 {
				t.Fatal(err, len(list.Tools))
			}
			ask, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "execute_python",
				Arguments: arguments{"code": `ask line "Name? "`, "wait_seconds": 60}})
			if err != nil || ask.IsError || ask.StructuredContent != nil {
				t.Fatal(err, ask)
			}
			if s := field(ask.Content[0].(*mcp.TextContent).Text, "Status"); s != "waiting_input" {
				t.Errorf("status %q", s)
			}
			answer, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "send_python_input",
				Arguments: arguments{"text": "Jonathan", "wait_seconds": 60}})
			if err != nil || field(answer.Content[0].(*mcp.TextContent).Text, "Status") != "completed" {
				t.Fatal(err, answer)
			}
		})
	}
}

// TestOrder sends many steps together: jobs start in the order in which they
// were sent.
func TestOrder(t *testing.T) {
	w := newWorld(t)
	c := w.dial(Scope{})
	const steps = 300
	var batch bytes.Buffer
	var want []string
	for i := range steps {
		step := strings.Repeat("\n", i) + `out "x"`
		want = append(want, step)
		batch.Write(marshal(map[string]any{"jsonrpc": "2.0", "id": 1000 + i, "method": "tools/call",
			"params": map[string]any{"name": "execute_python", "arguments": arguments{"code": step}}}))
		batch.WriteByte('\n')
	}
	go c.conn.Write(batch.Bytes()) // owned by the test, which reads an answer to each; ends when all is written
	for range steps {
		if _, isError := toolReply(t, c.read()); isError {
			t.Fatal("refused")
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range want {
		if w.order[i] != want[i] {
			t.Fatalf("step %d was sent at place %d", len(w.order[i]), len(want[i]))
		}
	}
}
