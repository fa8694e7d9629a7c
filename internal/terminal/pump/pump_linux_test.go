package pump_test

import (
	"testing"

	"asyncrepl/internal/terminal/pump"
	"asyncrepl/internal/test/must"

	"golang.org/x/sys/unix"
)

// A pipe that was found full holds more from then on. Another one stays as it is: the kernel bounds
// what all pipes of a user hold.
func TestFullPipeIsEnlarged(t *testing.T) {
	for name, test := range map[string]struct{ written, want int }{
		"full":     {64 << 10, 256 << 10},
		"not full": {60 << 10, 64 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			r, w := newPipe(t)
			must.Get(w.Write(make([]byte, test.written)))(t)
			got := make(chan int, 2) // for the two writes
			p := pump.New(r, func(b []byte) { got <- len(b) })
			defer p.Close()
			if n := <-got; n != test.written {
				t.Fatalf("read %d bytes at once, want %d", n, test.written)
			}
			must.Get(w.Write([]byte("x")))(t)
			<-got // the pump has done what it does after the first read
			if size := must.Get(unix.FcntlInt(w.Fd(), unix.F_GETPIPE_SZ, 0))(t); size != test.want {
				t.Errorf("it holds %d bytes, want %d", size, test.want)
			}
		})
	}
}
