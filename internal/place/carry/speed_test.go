//go:build linux

package carry

import (
	"io"
	"os/exec"
	"testing"

	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/sshdtest"
)

// BenchmarkPipe compares what a Pipe carries with the same through a carrier alone.
func BenchmarkPipe(b *testing.B) {
	const size = 64 << 20
	argv, _ := bare(b)
	for name, argv := range map[string][]string{"exec": argv, "ssh": SSH(sshdtest.Start(b).Args())} {
		read := func(b *testing.B, out io.Reader) {
			if n := must.Get(io.Copy(struct{ io.Writer }{io.Discard}, io.LimitReader(out, size)))(b); n != size {
				b.Fatalf("%d bytes came", n)
			}
		}
		write := func(b *testing.B, in io.Writer, out io.Reader) {
			must.Get(in.Write(make([]byte, size)))(b)
			must.Get(io.ReadFull(out, make([]byte, 1)))(b)
		}
		const reads, writes = "exec head -c 67108864 /dev/zero", "head -c 67108864 >/dev/null; echo; exec cat"
		b.Run(name+"/read", func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				p, _ := opened(b, Spec{Argv: argv, Program: writeProgram(b, greets+reads)})
				read(b, p)
				p.Close()
			}
		})
		b.Run(name+"/write", func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				p, _ := opened(b, Spec{Argv: argv, Program: writeProgram(b, greets+writes)})
				write(b, p, p)
				p.Close()
			}
		})
		for way, command := range map[string]string{"read": reads, "write": writes} {
			b.Run(name+"/"+way+"-floor", func(b *testing.B) {
				b.SetBytes(size)
				for b.Loop() {
					args := append(argv[1:len(argv):len(argv)], "sh", "-c", command)
					if name == "ssh" {
						args = append(argv[1:len(argv):len(argv)], command)
					}
					cmd := exec.Command(argv[0], args...)
					in, out := must.Get(cmd.StdinPipe())(b), must.Get(cmd.StdoutPipe())(b)
					must.Do(b, cmd.Start())
					if way == "read" {
						read(b, out)
					} else {
						write(b, in, out)
					}
					in.Close()
					must.Do(b, cmd.Wait())
				}
			})
		}
	}
}

// BenchmarkOpen compares getting in, if the program is there, with a carrier that runs true.
func BenchmarkOpen(b *testing.B) {
	argv := SSH(sshdtest.Start(b).Args())
	s := Spec{Argv: argv, Program: large(b, 40), Workspace: b.TempDir()}
	opened(b, s)
	b.Run("program-there", func(b *testing.B) {
		for b.Loop() {
			p, _ := opened(b, s)
			p.Close()
		}
	})
	b.Run("floor", func(b *testing.B) {
		for b.Loop() {
			must.Do(b, exec.Command(argv[0], append(argv[1:len(argv):len(argv)], "true")...).Run())
		}
	})
}
