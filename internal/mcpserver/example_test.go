package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"asyncrepl/internal/mcpserver"
	"asyncrepl/internal/process"
	"asyncrepl/internal/stdio"
	"asyncrepl/jobs"
	"asyncrepl/shell"
)

// Commands are runners that know the shell only. Those of the program are in
// cmd/async-repl, engine.go.
type commands struct{ owner *process.Owner }

func (c commands) Shell(sc mcpserver.Scope, req mcpserver.ShellRequest) (jobs.Runner, error) {
	return &shell.Command{Owner: c.owner, Argv: shell.Script("/bin/sh", req.Command), Dir: req.Dir, Env: sc.Env, TTY: req.TTY}, nil
}

func (commands) Python(mcpserver.Scope, string) (mcpserver.PythonSession, error) {
	return nil, errors.New("there is no Python here: use execute_command_async")
}

func (commands) Install(mcpserver.Scope, string, string) (jobs.Runner, error) {
	return nil, errors.New("there is no Python here: install with a command")
}

// An engine is served to one client, which runs a command and is refused Python.
func Example() {
	owner, err := process.NewOwner(process.Config{}) // a server names its guard here
	if err != nil {
		fmt.Println(err)
		return
	}
	defer owner.Shutdown()
	engine := &mcpserver.Engine{Jobs: jobs.NewRegistry(jobs.Config{}), Runners: commands{owner}, Version: "example"}
	defer engine.Jobs.Close(jobs.Stop{By: jobs.Shutdown, From: jobs.Kill})

	client, server := net.Pipe() // the server's standard input and output
	served := make(chan error, 1)
	go func() { // ends when the client has left, below
		ctx, leave := context.WithCancel(context.Background())
		scope := mcpserver.Scope{Tenant: "local", Workspace: "/", Env: []string{"PATH=" + os.Getenv("PATH")}}
		transport := &stdio.Transport{Stream: server, Ordered: true, Leave: leave}
		session, err := mcpserver.New(ctx, engine, scope).Connect(ctx, transport, nil)
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
	reply = call(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"execute_python","arguments":{"code":"1"}}}`)
	fmt.Println(reply.Result.IsError, reply.Result.Content[0].Text)
	client.Close()
	fmt.Println(<-served)
	// Output:
	// true
	// --- STDOUT ---
	// hello
	// true There is no Python here: use execute_command_async
	// <nil>
}
