//go:build unix

package process_test

import (
	"fmt"
	"os"

	"asyncrepl/internal/process"
	"asyncrepl/internal/process/ladder"
	"asyncrepl/internal/terminal/pump"
)

// Start a script that has a child, and stop the full tree.
func Example() {
	owner, err := process.NewOwner(process.Config{}) // a server names its guard here
	if err != nil {
		fmt.Println(err)
		return
	}
	defer owner.Shutdown() // ends any process that is left

	out, theirs, err := os.Pipe()
	if err != nil {
		fmt.Println(err)
		return
	}
	handle, err := owner.Start(process.Spec{
		Argv:  []string{"sh", "-c", "sleep 1000 & echo up; wait"},
		Env:   []string{"PATH=" + os.Getenv("PATH")},
		Dir:   "/",
		Files: []*os.File{nil, theirs, theirs}, // nil is /dev/null
		Mark:  "example",
	})
	theirs.Close() // ours; the script has its own
	if err != nil {
		fmt.Println(err)
		return
	}
	said := make(chan string, 1) // room, so that the pump need not wait
	reader := pump.New(out, func(b []byte) { said <- string(b) })
	fmt.Print(<-said)
	tree, err := handle.Tree()
	fmt.Println(len(tree), "processes", err)

	result := handle.Stop(process.Ladder{From: ladder.Terminate})
	<-reader.Done() // no process has the pipe open any more
	fmt.Println(result.Needed, len(result.Survivors), handle.Exit().Signal)
	// Output:
	// up
	// 2 processes <nil>
	// [terminate] 0 terminated
}
