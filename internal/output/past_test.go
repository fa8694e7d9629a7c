package output_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"asyncrepl/internal/output"
	"asyncrepl/internal/output/outputtest"
	"asyncrepl/internal/test/must"
)

// The test binary plays a writer that is killed if its first argument says so.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "part-writer" {
		write(os.Args[2], os.Args[3])
		return
	}
	os.Exit(m.Run())
}

// killedCap is the cap of a log whose writer is killed.
const killedCap = 300_000

// scripted calls f with writes that depend on seed only, without end.
func scripted(seed uint64, f func(s output.Stream, n int, flush bool) bool) {
	random := rand.New(rand.NewPCG(seed, 0))
	for f(output.Stream(random.IntN(5)), 1+random.IntN(1+random.IntN(20_000)), random.IntN(4) == 0) {
	}
}

// write writes a log in dir and prints its end after each flush.
func write(dir, seed string) {
	n, _ := strconv.ParseUint(seed, 10, 64)
	l := output.NewStore(output.Config{Cap: killedCap, Dir: func() (string, error) { return dir, nil }}).NewLog("killed")
	scripted(n, func(s output.Stream, n int, flush bool) bool {
		b := make([]byte, n)
		outputtest.Pattern(b, l.Stat().End)
		l.Write(s, b)
		if flush {
			l.Flush()
			fmt.Println(l.Stat().End)
		}
		return l.Stat().End < 100<<20
	})
}

// A log whose writer is killed has, in a later run, what was flushed and a part of what was written
// after it, each byte with its label. Only the cap has taken bytes.
func TestKilledWriterLeavesWhatItFlushed(t *testing.T) {
	rounds := 40
	if testing.Short() {
		rounds = 8
	}
	random := rand.New(rand.NewPCG(1, uint64(os.Getpid())))
	for round := range rounds {
		dir, seed := t.TempDir(), random.Uint64()
		writer := exec.Command(must.Get(os.Executable())(t), "part-writer", dir, fmt.Sprint(seed))
		said := must.Get(writer.StdoutPipe())(t)
		if err := writer.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(said)
		flushed := int64(0)
		for range random.IntN(60) {
			line := must.Get(lines.ReadString('\n'))(t)
			flushed = must.Get(strconv.ParseInt(strings.TrimSpace(line), 10, 64))(t)
		}
		if err := writer.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		rest := must.Get(io.ReadAll(lines))(t) // it ends with the writer
		_ = writer.Wait()
		for line := range strings.Lines(string(rest)) {
			if strings.HasSuffix(line, "\n") {
				flushed = must.Get(strconv.ParseInt(strings.TrimSpace(line), 10, 64))(t)
			}
		}
		past := output.OpenPast(output.FilesOf(filepath.Join(dir, "killed")), output.Stat{Final: -1}, nil)
		st := past.Stat()
		if st.End < flushed || st.Final != st.End || st.Loss != (output.Loss{Cap: st.Dropped}) || st.End-st.Dropped < min(st.End, killedCap) {
			t.Fatalf("round %d, seed %d: flushed %d, found %+v", round, seed, flushed, st)
		}
		m := new(outputtest.Model)
		scripted(seed, func(s output.Stream, n int, _ bool) bool {
			b := make([]byte, n)
			outputtest.Pattern(b, m.End())
			m.Write(s, b[:min(int64(n), st.End-m.End())])
			return m.End() < st.End
		})
		m.Reread(st.End).Compare(t, past, 50_000)
	}
}

// Files that were cut anywhere, or have zeros or rubbish after the cut, show what both have.
func TestTornFiles(t *testing.T) {
	for _, test := range []struct {
		name  string
		limit int64
	}{{"short", 0}, {"cut in the middle", 256}} {
		t.Run(test.name, func(t *testing.T) {
			m, whole := sharing(t, 0, test.limit), new(outputtest.Model)
			l := m.New()
			for i := range 60 {
				b := make([]byte, 1+i%29)
				outputtest.Pattern(b, whole.End())
				l.Write(output.Stream(i%3), b)
				whole.Write(output.Stream(i%3), b)
				l.Flush()
			}
			from := filepath.Join(m.Usage().Dir, "log1")
			data, labels := must.Get(os.ReadFile(from+"/output.log"))(t), must.Get(os.ReadFile(from+"/output.streams"))(t)
			gone := l.Stat().Gaps
			rubbish := bytes.Repeat([]byte("\xffgarbage\n"), 5)
			to := t.TempDir()
			read := func(data, labels []byte) output.Stat {
				for name, b := range map[string][]byte{"output.log": data, "output.streams": labels} {
					path := filepath.Join(to, name)
					os.Remove(path) // to overwrite a file takes milliseconds on ext4
					if err := os.WriteFile(path, b, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				past := output.OpenPast(output.FilesOf(to), output.Stat{Final: -1}, nil)
				outputtest.CheckPattern(t, past)
				past.Streams(0, whole.End())
				return past.Stat()
			}
			for cut := range len(data) + 1 {
				st := read(data[:cut], labels)
				if st.End != int64(cut) && !(outputtest.Contains(gone, int64(cut)-1) && st.End == gone[0].From) {
					t.Fatalf("%d bytes are there, shown are %+v", cut, st)
				}
				if cut == len(data) && !slices.Equal(st.Gaps, gone) {
					t.Fatalf("gaps %v, want %v", st.Gaps, gone)
				}
			}
			for cut := range len(labels) + 1 {
				for _, tail := range [][]byte{nil, make([]byte, 37), rubbish} {
					st := read(data, slices.Concat(labels[:cut], tail))
					if st.End > int64(len(data)) || cut == len(labels) && st.End != int64(len(data)) {
						t.Fatalf("with %d of %d bytes of labels and %q: %+v", cut, len(labels), tail, st)
					}
				}
			}
			if st := read(data, rubbish); st.End > int64(len(data)) {
				t.Errorf("with rubbish for labels: %+v", st)
			}
		})
	}
}

// A past log is read by several at once, and opens no file before that.
func TestPastLogIsOpenedWhenRead(t *testing.T) {
	m := sharing(t, 0, 0)
	l := m.New()
	segments(l, 4)
	l.Finish()
	m.CloseFiles()
	dir := m.Usage().Dir
	past := output.OpenPast(output.FilesOf(dir+"/log1"), l.Stat(), nil)
	if past.Stat().End != 4*output.SegmentSize || past.Before(past.Stat().Last) != 4*output.SegmentSize || past.Wait(t.Context(), 1<<40) != nil {
		t.Errorf("before a read: %+v", past.Stat())
	}
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() { wantKept(t, "in a later run", past, 4*output.SegmentSize) })
	}
	readers.Wait()
	if n := openFiles(t, dir); n != 0 {
		t.Errorf("%d files are open", n)
	}
	if err := os.RemoveAll(dir + "/log1"); err != nil {
		t.Fatal(err)
	}
	gone := output.OpenPast(output.FilesOf(dir+"/log1"), l.Stat(), nil)
	if c := gone.Read(10, 10); c.From != 4*output.SegmentSize || gone.Stat().Loss != (output.Loss{Limit: 4 * output.SegmentSize}) {
		t.Errorf("without files: %+v, %+v", c, gone.Stat())
	}
}

// A file in the place of an attachment of a past log is not read if it is larger than any attachment.
func TestHugeAttachmentOfAPastLog(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "display-0")
	must.Do(t, os.WriteFile(path, []byte("x"), 0o600))
	past := output.OpenPast(output.FilesOf(dir), output.Stat{}, nil)
	if b, err := past.Attachment(0); err != nil || string(b) != "x" {
		t.Errorf("got %q, %v", b, err)
	}
	must.Do(t, os.Truncate(path, 1<<40))
	if b, err := past.Attachment(0); err == nil {
		t.Errorf("got %d bytes", len(b))
	}
}
