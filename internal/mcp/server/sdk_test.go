package server

import (
	"bytes"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"asyncrepl/internal/engine"
)

func TestClientsBuiltOnTheSDKAreServed(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2026-07-28", "2025-11-25", "2025-06-18"} {
		t.Run(version, func(t *testing.T) {
			w := newWorld(t)
			raw := w.connect(t.Context(), engine.Scope{})
			client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "0"}, nil)
			session, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: raw.conn, Writer: raw.conn},
				&mcp.ClientSessionOptions{ProtocolVersion: version})
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			info := session.InitializeResult()
			if info.Capabilities.Tools == nil || info.Capabilities.Tools.ListChanged { // the conversations in cmd/async-repl have them all
				t.Errorf("capabilities %+v", info.Capabilities)
			}
			if info.Instructions != allInstructions || info.ServerInfo.Name != "async-repl" {
				t.Errorf("server %+v, instructions %q", info.ServerInfo, info.Instructions)
			}
			list, err := session.ListTools(t.Context(), nil)
			if err != nil || len(list.Tools) != 18 {
				t.Fatal(err, len(list.Tools))
			}
			ask, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "execute_python",
				Arguments: given{"code": `ask line "Name? "`, "wait_seconds": 60}})
			if err != nil || ask.IsError || ask.StructuredContent != nil {
				t.Fatal(err, ask)
			}
			if s := field(ask.Content[0].(*mcp.TextContent).Text, "Status"); s != "waiting_input" {
				t.Errorf("status %q", s)
			}
			answer, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "send_python_input",
				Arguments: given{"text": "Jonathan", "wait_seconds": 60}})
			if err != nil || field(answer.Content[0].(*mcp.TextContent).Text, "Status") != "completed" {
				t.Fatal(err, answer)
			}
			shown, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "execute_python", Arguments: given{"code": "pictures 1 100"}})
			if err != nil || len(shown.Content) != 2 {
				t.Fatal(err, shown)
			}
			if image, ok := shown.Content[1].(*mcp.ImageContent); !ok || image.MIMEType != "image/png" || !bytes.Equal(image.Data, pngOf(1, 100)) {
				t.Errorf("a picture: %+v", shown.Content[1])
			}
		})
	}
}
