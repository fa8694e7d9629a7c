package server_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/mcp/client"
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

	ctx, leave := context.WithCancel(context.Background())
	theirs, ours := net.Pipe() // ours are the server's standard input and output
	shared := server.Config{Backend: eng, Version: "example"}
	transport := &stdio.Transport{Stream: ours, Ordered: true, Leave: leave}
	session, err := server.New(ctx, shared, eng.Scope(engine.Client{Env: os.Environ()})).Connect(ctx, transport, nil)
	if err != nil {
		fmt.Println(err)
		return
	}

	c := client.New(theirs, theirs)
	if err := c.Initialize(ctx); err != nil {
		fmt.Println(err)
	}
	reply, err := c.Call(ctx, "execute_command_async", map[string]any{"command": "echo hello", "wait_seconds": 110})
	fmt.Println(reply.Header("Status"), err)
	fmt.Print(reply.Section("STDOUT"))
	_, err = c.Call(ctx, "cancel_job", map[string]any{"job_id": "1"})
	refusal, _, _ := strings.Cut(err.Error(), "\n")
	fmt.Println(refusal)
	theirs.Close()
	fmt.Println(session.Wait())
	// Output:
	// completed <nil>
	// hello
	// cancel_job: tool error: No such job: 1
	// <nil>
}
