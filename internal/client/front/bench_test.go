package front

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"testing"

	"asyncrepl/internal/test/must"
)

// BenchmarkPassing measures a call through a front, and one through a front that only copies bytes.
// The call and its answer have as many bytes as the names say. The difference counts; the aim is
// 0.02 ms.
func BenchmarkPassing(b *testing.B) {
	for _, size := range [][2]int{{100, 300}, {100, 16 << 10}, {16 << 10, 300}} {
		answer := `,"result":{"content":[{"type":"text","text":"` + strings.Repeat("x", size[1]) + `"}]}}` + "\n"
		engine := func(c Conn) {
			r := bufio.NewReaderSize(c, 1<<20)
			for {
				line, err := r.ReadString('\n')
				if err != nil {
					c.Close()
					return
				}
				if id, _, ok := strings.Cut(line, `,"method"`); ok {
					io.WriteString(c, id+answer)
				}
			}
		}
		call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"s":"` + strings.Repeat("x", size[0]) + `"}}}` + "\n"
		measure := func(b *testing.B, client io.ReadWriteCloser) {
			r := bufio.NewReaderSize(client, 1<<20)
			for b.Loop() {
				io.WriteString(client, call)
				must.Get(r.ReadSlice('\n'))(b)
			}
			b.StopTimer()
			client.Close()
		}
		b.Run(fmt.Sprintf("%d,%d/front", size[0], size[1]), func(b *testing.B) {
			w := start(b)
			w.engine = engine
			measure(b, stream{w.out, w.in})
		})
		b.Run(fmt.Sprintf("%d,%d/copy", size[0], size[1]), func(b *testing.B) {
			client, ours := pipes(b)
			front, theirs := sockPair(b)
			go engine(theirs) // ends with the connection
			for _, ends := range [][2]io.ReadWriteCloser{{front, ours}, {ours, front}} {
				go func() { // ends with either connection
					io.CopyBuffer(struct{ io.Writer }{ends[0]}, struct{ io.Reader }{ends[1]}, make([]byte, readBuffer))
					ends[0].Close()
				}()
			}
			measure(b, client)
		})
	}
}
