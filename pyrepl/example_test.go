package pyrepl_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"asyncrepl/internal/process"
	"asyncrepl/jobs"
	"asyncrepl/pyrepl"
)

// Two jobs of one session: the second finds the variables of the first.
func Example() {
	owner, err := process.NewOwner(process.Config{}) // a server names its guard here
	if err != nil {
		fmt.Println(err)
		return
	}
	defer owner.Shutdown()
	session := pyrepl.NewSession("default", pyrepl.Config{
		Owner:  owner,
		Python: func(context.Context) (string, error) { return exec.LookPath("python3") },
		Env:    os.Environ,
		Dir:    "/",
	})
	defer session.Close()
	registry := jobs.NewRegistry(jobs.Config{})
	defer registry.Close(jobs.Stop{By: jobs.Shutdown, From: jobs.Kill})

	for _, code := range []string{"x = 6\nprint('set')", "x * 7", "x / 0"} {
		job, err := registry.Start(jobs.Spec{Kind: jobs.Python, Session: session.Name(), Title: code}, session.Exec(code))
		if err != nil {
			fmt.Println(err)
			return
		}
		<-job.Done()
		record, chunk := job.Read(0, 4096)
		fmt.Println(record.Receipt.Text())
		switch {
		case record.HasResult:
			fmt.Println("result:", record.Result)
		case record.Status == jobs.Completed:
			fmt.Printf("printed: %s", chunk.Spans[0].Data)
		}
	}
	known, err := session.Variables(context.Background(), "")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, v := range known.Vars {
		fmt.Println("variable:", v.Name, v.Type, v.Value)
	}
	// Output:
	// completed
	// printed: set
	// completed
	// result: 42
	// failed (ZeroDivisionError: division by zero)
	// variable: x int 6
}
