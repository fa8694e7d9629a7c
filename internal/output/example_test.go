package output_test

import (
	"fmt"

	"asyncrepl/internal/output"
)

// A reader keeps its own cursor. Each chunk says how many bytes before it are gone.
func Example() {
	log := output.NewStore(output.Config{}).NewLog("a")
	log.Write(output.Stdout, []byte("one\n"))
	log.Write(output.Stderr, []byte("two\n"))
	log.Finish()
	log.Write(output.Stdout, []byte("late\n"))

	for cursor := int64(0); cursor < log.Stat().End; {
		chunk := log.Read(cursor, 1<<10)
		for _, span := range chunk.Spans {
			fmt.Printf("%s %q\n", span.Stream, span.Data)
		}
		cursor = chunk.Next
	}
	stat := log.Stat()
	fmt.Printf("%d bytes, %d of them late\n", stat.End, stat.End-stat.Final)
	// Output:
	// stdout "one\n"
	// stderr "two\n"
	// stdout "late\n"
	// 13 bytes, 5 of them late
}

// A log keeps the first and the last half of its cap, and counts the bytes it dropped.
func ExampleLog() {
	log := output.NewStore(output.Config{Cap: 1 << 20}).NewLog("a")
	line := make([]byte, 1<<10)
	for range 4 << 10 { // 4 MiB
		log.Write(output.Stdout, line)
	}
	log.Finish()
	stat := log.Stat()
	kept := int64(0)
	for cursor := int64(0); cursor < stat.End; {
		chunk := log.Read(cursor, 1<<16)
		kept += chunk.Next - chunk.From
		cursor = chunk.Next
	}
	fmt.Println(stat.End, stat.End == kept+stat.Dropped)
	// Output: 4194304 true
}
