//go:build unix

package stdin_test

import (
	"context"
	"fmt"
	"io"

	"asyncrepl/internal/terminal/stdin"
)

// What was sent can be read until the end of file, after which nothing can be sent.
func Example() {
	p, theirs, err := stdin.Open()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer theirs.Close()
	if err := p.Send(context.Background(), "hello", true); err != nil {
		fmt.Println(err)
	}
	b, _ := io.ReadAll(theirs)
	fmt.Printf("%s\n", b)
	fmt.Println(p.Send(context.Background(), "more", false))
	// Output:
	// hello
	// the command's standard input was closed by an earlier eof
}
