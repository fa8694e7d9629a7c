package stdio_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"asyncrepl/internal/mcp/stdio"
)

// A server of the SDK answers over a stream. A line that is no message, and a call whose id is a
// fraction, are answered with an error, and the session continues.
func Example() {
	server := mcp.NewServer(&mcp.Implementation{Name: "example", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "greet", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "hello"}}}, nil
		})
	client, stream := net.Pipe() // as the server's standard input and output
	session, err := server.Connect(context.Background(), &stdio.Transport{Stream: stream}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	lines := bufio.NewScanner(client)
	for _, message := range []string{
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`,
		`hello?`,
		`{"jsonrpc":"2.0","id":1.5,"method":"tools/call","params":{"name":"greet"}}`,
		`{"jsonrpc":"2.0","id":"one","method":"tools/call","params":{"name":"greet"}}`,
	} {
		fmt.Fprintln(client, message)
		lines.Scan()
		var answer struct {
			ID     json.RawMessage
			Result struct{ Content []struct{ Text string } }
			Error  struct{ Message string }
		}
		if err := json.Unmarshal(lines.Bytes(), &answer); err != nil {
			fmt.Println(err)
		}
		fmt.Println(string(answer.ID), answer.Result.Content, answer.Error.Message == "")
	}
	client.Close()
	fmt.Println(session.Wait())
	// Output:
	// 0 [] true
	// null [] false
	// 1.5 [] false
	// "one" [{hello}] true
	// <nil>
}
