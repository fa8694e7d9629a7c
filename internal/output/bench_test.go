package output_test

import (
	"bytes"
	"fmt"
	"os"
	"testing"
	"time"

	"asyncrepl/internal/output"
	"asyncrepl/internal/test/must"
)

// Bytes that a pump writes at a time.
var chunks = []int{100, 4 << 10, 64 << 10}

// BenchmarkWrite writes 64 MiB to a log and in turn, as its floor, to the end of a bare file. Both
// begin with a new file. Aim: at most 1.11x.
func BenchmarkWrite(b *testing.B) {
	const size = 64 << 20
	for _, n := range chunks {
		chunk := bytes.Repeat([]byte("x"), n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			dir := b.TempDir()
			s := output.NewTestStore(output.Config{Dir: func() (string, error) { return dir, nil }})
			var ours, floor time.Duration
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				l := s.New()
				begin := time.Now()
				for written := 0; written < size; written += n {
					l.Write(output.TTY, chunk)
				}
				ours += time.Since(begin)
				l.Discard()
				f := must.Get(os.CreateTemp(dir, "floor"))(b)
				begin = time.Now()
				for written := 0; written < size; written += n {
					if _, err := f.Write(chunk); err != nil {
						b.Fatal(err)
					}
				}
				floor += time.Since(begin)
				f.Close()
				os.Remove(f.Name())
			}
			b.ReportMetric(float64(ours)/float64(floor), "x-floor")
		})
	}
}

// BenchmarkPoll reads 500 new bytes, as a client that polls does: of a log of 1 KB, and of one of 1
// GB at its end, which is in memory, and in the middle, which is on disk. The floor is a copy of as
// many bytes.
func BenchmarkPoll(b *testing.B) {
	const news = 500
	poll := func(l output.TestLog, cursor int64) func(*testing.B) {
		return func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if c := l.Read(cursor, news); c.Next-c.From != news {
					b.Fatalf("read %d bytes", c.Next-c.From)
				}
			}
		}
	}
	filled := func(size int) output.TestLog {
		l, _ := onDisk(b, 0)
		chunk := bytes.Repeat([]byte("x"), 1<<10)
		for range size / len(chunk) {
			l.Write(output.TTY, chunk)
		}
		return l
	}
	b.Run("1KB", poll(filled(1<<10), 1<<10-news))
	big := filled(1 << 30)
	b.Run("1GB/end", poll(big, 1<<30-news))
	b.Run("1GB/middle", poll(big, 1<<29))
	b.Run("floor=copy", func(b *testing.B) {
		from := make([]byte, news)
		for b.Loop() {
			_ = append([]byte(nil), from...)
		}
	})
}

// BenchmarkRead reads a log on disk of 32 MiB from end to end in replies of that size. The floor
// reads as much of a bare file.
func BenchmarkRead(b *testing.B) {
	const size, reply = 32 << 20, 16_000
	l, _ := onDisk(b, 0)
	f := must.Get(os.Create(b.TempDir() + "/floor"))(b)
	defer f.Close()
	chunk := bytes.Repeat([]byte("x"), 64<<10)
	for written := 0; written < size; written += len(chunk) {
		l.Write(output.TTY, chunk)
		must.Get(f.Write(chunk))(b)
	}
	b.Run("log", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			for cursor := int64(0); cursor < size; {
				cursor = l.Read(cursor, reply).Next
			}
		}
	})
	b.Run("floor=file", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			for at := int64(0); at < size; at += reply {
				if _, err := f.ReadAt(make([]byte, min(reply, size-at)), at); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}
