package output_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/output"
	"asyncrepl/internal/output/outputtest"
	"asyncrepl/internal/test/must"
)

// A log that was told of dropped bytes is the same in a later run. If its writer was killed, the files still say
// which bytes are missing before others.
func TestSkipInAPastLog(t *testing.T) {
	for name, test := range map[string]struct {
		before, after int // bytes
		why           output.Loss
	}{
		"nothing else":       {0, 0, output.Loss{Cap: 1000}},
		"at the end":         {10, 0, output.Loss{Limit: 1000}},
		"at the beginning":   {0, 10, output.Loss{Disk: 1000}},
		"between":            {10, 10, output.Loss{Cap: 400, Disk: 600}},
		"of unknown cause":   {10, 10, output.Loss{Cap: 400}},
		"of unknown cause 2": {10, 0, output.Loss{}},
		"in a long log":      {100_000, 100_000, output.Loss{Cap: 1000}},
	} {
		t.Run(name, func(t *testing.T) {
			l, dir := onDisk(t, 0)
			m := new(outputtest.Model)
			write := func(n int) {
				b := make([]byte, n)
				outputtest.Pattern(b, m.End())
				l.Write(output.Stderr, b)
				m.Write(output.Stderr, b)
			}
			write(test.before)
			l.Skip(m.End()+1000, test.why)
			m.Skip(1000)
			write(test.after)
			l.Finish()
			m.Finish()
			st := l.Stat()
			if st.Loss != test.why || st.Dropped != 1000 {
				t.Fatalf("%+v", st)
			}
			past := output.OpenPast(output.FilesOf(dir+"/log1"), st, nil)
			past.Read(0, 10)
			if d := cmp.Diff(st, past.Stat()); d != "" {
				t.Error(d)
			}
			killed := output.OpenPast(output.FilesOf(dir+"/log1"), output.Stat{Final: -1}, nil)
			if test.after == 0 {
				if st := killed.Stat(); st.End != int64(test.before) || st.Dropped != 0 {
					t.Errorf("of a killed writer: %+v", st)
				}
				return
			}
			m.Reread(st.End).Compare(t, killed, 5000)
			if d := cmp.Diff(st.Gaps, killed.Stat().Gaps); d != "" {
				t.Error(d)
			}
			past.Skip(1<<20, output.Loss{})
			if got := past.Stat().End; got != st.End {
				t.Errorf("a past log has grown to %d", got)
			}
		})
	}
}

// Bytes that a file can't take at their offset stay in memory, and no one is told that the disk has failed.
func TestSkipBeyondAFile(t *testing.T) {
	check := func(t *testing.T, s output.TestStore, to int64) {
		l := s.New()
		l.Write(output.Stdout, []byte("begin"))
		l.Skip(to, output.Loss{Cap: to - 5})
		segments(l, 8)
		l.Write(output.Stdout, []byte("end"))
		l.Finish()
		st, end := l.Stat(), to+8*output.SegmentSize+3
		if st.End != end || st.Loss != (output.Loss{Cap: st.Dropped}) || string(output.Tail(l, 3)) != "end" {
			t.Errorf("%+v, ends with %q", st, output.Tail(l, 3))
		}
		if c := l.Read(0, 5); len(c.Spans) != 1 || string(c.Spans[0].Data) != "begin" {
			t.Errorf("begins with %+v", c)
		}
		if n, most := l.Held(); n < most/2 || n > most {
			t.Errorf("%d of at most %d bytes are in memory", n, most)
		}
		if u := s.Usage(); u.Failure != nil || u.Bytes > 64<<10 {
			t.Errorf("%+v", u)
		}
	}
	t.Run("its file system has no such offset", func(t *testing.T) {
		s := sharing(t, 0, 0)
		s.WrapFiles(func(_ string, f output.RawFile) output.RawFile { return shortFile{f} })
		check(t, s, 1<<30)
	})
	t.Run("its process may not write there", func(t *testing.T) {
		s := sharing(t, 0, 0)
		s.SetLargest(1 << 20)
		check(t, s, 1<<30)
	})
	t.Run("its file system has no holes", func(t *testing.T) {
		s := sharing(t, 0, 1<<20)
		s.WrapFiles(func(_ string, f output.RawFile) output.RawFile { return solidFile{f} })
		check(t, s, 1<<30)
		if n := must.Get(os.Stat(filepath.Join(s.Usage().Dir, "log1", "output.log")))(t).Size(); n > 64<<10 {
			t.Errorf("its file takes %d bytes", n)
		}
	})
}

// shortFile is a file on a file system whose files are short.
type shortFile struct{ output.RawFile }

func (f shortFile) WriteAt(b []byte, off int64) (int, error) {
	if off > 1<<20 {
		return 0, syscall.EFBIG
	}
	return f.RawFile.WriteAt(b, off)
}
