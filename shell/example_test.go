package shell_test

import (
	"fmt"
	"os"

	"asyncrepl/internal/output"
	"asyncrepl/internal/process"
	"asyncrepl/jobs"
	"asyncrepl/shell"
)

// A command line runs as a job on pipes; with TTY set it would run on a terminal
// of its own.
func Example() {
	owner, err := process.NewOwner(process.Config{}) // a server names its guard here
	if err != nil {
		fmt.Println(err)
		return
	}
	defer owner.Shutdown()
	registry := jobs.NewRegistry(jobs.Config{})
	defer registry.Close(jobs.Stop{By: jobs.Shutdown, From: jobs.Kill})

	line := "echo hello; echo oh >&2; exit 3"
	job, err := registry.Start(jobs.Spec{Kind: jobs.Shell, Title: line}, &shell.Command{
		Owner: owner,
		Argv:  shell.Script("/bin/sh", line),
		Dir:   "/",
		Env:   []string{"PATH=" + os.Getenv("PATH")},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	<-job.Done()
	record, chunk := job.Read(0, 4096)
	fmt.Println(record.Receipt.Text())
	for _, stream := range []output.Stream{output.Stdout, output.Stderr} { // the order between them is not theirs
		for _, span := range chunk.Spans {
			if span.Stream == stream {
				fmt.Printf("%s: %s", stream, span.Data)
			}
		}
	}
	// Output:
	// failed (exit 3)
	// stdout: hello
	// stderr: oh
}
