package stdio

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// pipes are the client's ends of two pipes of the kernel, as a client's standard streams are.
type pipes struct {
	b testing.TB
	w *os.File
	r *bufio.Reader
}

func newPipes(b testing.TB) (*pipes, io.ReadWriteCloser) {
	inR, inW, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { inW.Close(); outR.Close() })
	return &pipes{b, inW, bufio.NewReaderSize(outR, 1<<20)}, duplex{inR, outW}
}

func (p *pipes) exchange(line string) {
	if _, err := io.WriteString(p.w, line+"\n"); err != nil {
		p.b.Fatal(err)
	}
	if _, err := p.r.ReadSlice('\n'); err != nil {
		p.b.Fatal(err)
	}
}

// BenchmarkRoundTrip measures a call of a tool that does nothing, over this transport and over the
// SDK's. The ratio counts.
func BenchmarkRoundTrip(b *testing.B) {
	transports := map[string]func(io.ReadWriteCloser) mcp.Transport{
		"ours": func(s io.ReadWriteCloser) mcp.Transport { return &Transport{Stream: s} },
		"sdk": func(s io.ReadWriteCloser) mcp.Transport {
			d := s.(duplex)
			return &mcp.IOTransport{Reader: d.ReadCloser, Writer: d.WriteCloser}
		},
	}
	for _, size := range []int{32, 16 << 10} {
		for name, transport := range transports {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				p, stream := newPipes(b)
				ss, err := newGate().server().Connect(context.Background(), transport(stream), nil)
				if err != nil {
					b.Fatal(err)
				}
				p.exchange(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
				io.WriteString(p.w, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
				call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"s":"` + strings.Repeat("x", size) + `"}}}`
				b.ReportAllocs()
				for b.Loop() {
					p.exchange(call)
				}
				p.w.Close()
				ss.Wait()
			})
		}
	}
}

// BenchmarkAnswer compares appending a result of 45 kB to its answer with encoding it again, as the
// SDK does.
func BenchmarkAnswer(b *testing.B) {
	id, _ := parseID([]byte("1"))
	text := appendJSON(nil, strings.Repeat("output <1>\n", 4000))
	r := &jsonrpc.Response{ID: id, Result: fmt.Appendf(nil, `{"content":[{"type":"text","text":%s}]}`, text)}
	b.Run("append", func(b *testing.B) {
		var line []byte
		for b.Loop() {
			line = appendResponse(line[:0], []byte("1"), r)
		}
	})
	b.Run("encode", func(b *testing.B) {
		for b.Loop() {
			jsonrpc.EncodeMessage(r)
		}
	})
}
