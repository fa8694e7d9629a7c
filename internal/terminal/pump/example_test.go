package pump_test

import (
	"fmt"
	"os"

	"asyncrepl/internal/terminal/pump"
)

// Output that was written before a drain is there after it, although the pipe stays open.
func Example() {
	r, w, err := os.Pipe()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer w.Close()
	p := pump.New(r, func(b []byte) { fmt.Printf("%s", b) })
	fmt.Fprintln(w, "hello")
	p.Drain()
	p.Close()
	// Output: hello
}
