package far_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"testing"

	"github.com/oklog/ulid/v2"

	"asyncrepl/internal/output"
	"asyncrepl/internal/place/stream"
	"asyncrepl/internal/test/linktest"
	"asyncrepl/internal/test/must"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

const muchOutput = 300 << 20

// BenchmarkOutput carries 300 MiB of output over a Unix socket. Its floor, plain, copies a file of that size.
func BenchmarkOutput(b *testing.B) {
	e, c := engine(b, linktest.Runners{"much": func(_ context.Context, p *jobs.Port) jobs.Outcome {
		p.Begin()
		line := bytes.Repeat([]byte("0123456789abcde\n"), 4<<10)
		for range muchOutput / len(line) {
			p.Write(output.Stdout, line)
		}
		return returned
	}})
	id := ulid.Make().String()
	_, body, err := c.Start(b.Context(), id, "much", nil, false, stream.Position{})
	must.Do(b, err)
	body.Close()
	jobstest.End(b, e.Jobs.Lookup(id))
	b.Run("life", func(b *testing.B) {
		b.SetBytes(muchOutput)
		for b.Loop() {
			r, body, err := c.Follow(b.Context(), id, stream.Position{})
			must.Do(b, err)
			n := 0
			for {
				f, err := r.Next()
				if err == io.EOF {
					break
				}
				must.Do(b, err)
				n += len(f.Data)
			}
			body.Close()
			if n != muchOutput {
				b.Fatalf("%d bytes came", n)
			}
		}
	})
	b.Run("plain", func(b *testing.B) {
		path := b.TempDir() + "/file"
		must.Do(b, os.WriteFile(path, make([]byte, muchOutput), 0o600))
		b.SetBytes(muchOutput)
		for b.Loop() {
			from, to := socketPair(b)
			go func() { // joined by the read below
				f := must.Get(os.Open(path))(b)
				defer f.Close()
				io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{f}, make([]byte, 64<<10))
				to.Close()
			}()
			io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{from}, make([]byte, 64<<10))
			from.Close()
		}
	})
}

func socketPair(t testing.TB) (a, b net.Conn) {
	t.Helper()
	l := must.Get(net.Listen("unix", t.TempDir()+"/s"))(t)
	defer l.Close()
	a = must.Get(net.Dial("unix", l.Addr().String()))(t)
	return a, must.Get(l.Accept())(t)
}

// BenchmarkQuickJob is a job from its start to the end of its life.
func BenchmarkQuickJob(b *testing.B) {
	_, c := engine(b, linktest.Runners{"hello": prints("hello\n")})
	for b.Loop() {
		r, body, err := c.Start(b.Context(), ulid.Make().String(), "hello", []byte(`{}`), false, stream.Position{})
		must.Do(b, err)
		read(b, r)
		body.Close()
	}
}
