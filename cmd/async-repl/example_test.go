package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"asyncrepl/internal/mcp/client"
)

// The program as a client uses it: started with pipes, spoken to in JSON-RPC, ended by closing its
// input. (Here the test binary plays the program, see TestMain.)
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		fmt.Println(err)
		return
	}
	dir, err := os.MkdirTemp("", "async-repl-example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	server := exec.CommandContext(ctx, self, "-workdir", dir, "-state-dir", dir, "-python", "python3", "-grace", "60s")
	server.Env = withoutSettings(os.Environ())
	server.Stderr = os.Stderr
	c, err := client.Launch(server)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := c.Initialize(ctx); err != nil {
		fmt.Println(err)
	}
	for _, code := range []string{"x = 6", "print('six times seven'); x * 7"} {
		reply, err := c.Call(ctx, "execute_python", map[string]any{"code": code})
		if err != nil {
			fmt.Println(err)
		}
		fmt.Println(reply.Header("Status"))
		fmt.Printf("output %q, result %q\n", reply.Section("STDOUT"), reply.Section("RESULT"))
	}
	fmt.Println("ended:", c.Close())
	// Output:
	// completed
	// output "", result ""
	// completed
	// output "six times seven", result "42\n"
	// ended: <nil>
}
