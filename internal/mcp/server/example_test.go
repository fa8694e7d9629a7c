package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/mcp/server"
	"asyncrepl/internal/mcp/stdio"
)

// An engine is served to one client, which runs a command and asks for a job that is not there.
func Example() {
	eng, err := engine.New(engine.Config{ // a server names its guard and its limits here
		Workspace: "/", Shell: "/bin/sh", MaxOutput: 1 << 20,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer eng.Close()

	client, end := net.Pipe() // the server's standard input and output
	served := make(chan error, 1)
	go func() { // ends when the client has left, below
		ctx, leave := context.WithCancel(context.Background())
		transport := &stdio.Transport{Stream: end, Ordered: true, Leave: leave}
		shared := server.Config{Backend: eng, Version: "example"}
		session, err := server.New(ctx, shared, eng.Scope(engine.Client{Env: os.Environ()})).Connect(ctx, transport, nil)
		if err == nil {
			err = session.Wait()
		}
		served <- err
	}()
	lines := bufio.NewReader(client)
	call := func(message string) (reply struct {
		Result struct {
			Content []struct{ Text string }
			IsError bool
		}
	}) {
		fmt.Fprintln(client, message)
		line, err := lines.ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(line, &reply)
		}
		if err != nil {
			fmt.Println(err)
		}
		return reply
	}

	call(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"example","version":"1"}}}`)
	fmt.Fprintln(client, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	reply := call(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"execute_command_async","arguments":{"command":"echo hello","wait_seconds":110}}}`)
	header, output, _ := strings.Cut(reply.Result.Content[0].Text, "\n\n")
	fmt.Println(strings.Contains(header, "\nStatus: completed\n"))
	fmt.Println(strings.TrimSpace(output))
	reply = call(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"cancel_job","arguments":{"job_id":"1"}}}`)
	refusal, _, _ := strings.Cut(reply.Result.Content[0].Text, "\n")
	fmt.Println(reply.Result.IsError, refusal)
	client.Close()
	fmt.Println(<-served)
	// Output:
	// true
	// --- STDOUT ---
	// hello
	// true No such job: 1
	// <nil>
}
