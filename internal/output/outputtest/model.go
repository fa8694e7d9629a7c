// Package outputtest checks implementations of [output.Log].
//
// Begin with [Test], which the implementation's own test calls. [Model] is the obvious
// log: it keeps everything. A test that drives a log in its own way, for example with a disk that
// fails, drives a Model alongside and compares.
package outputtest

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/output"
)

// A Model keeps everything that was written. The zero Model is empty.
type Model struct {
	// VagueStreams permits [output.Reader.Streams] to return any stream, as it must if labels can't be
	// read from disk.
	VagueStreams bool

	data     []byte
	streams  []byte // the stream of each byte of data, or skipped
	all      output.Streams
	finished bool
	final    int64
	gone     []output.Range // the gaps that the last Compare saw
}

// End returns the number of bytes written.
func (m *Model) End() int64 { return int64(len(m.data)) }

// Write does what [output.Log.Write] does.
func (m *Model) Write(s output.Stream, b []byte) {
	if len(b) > 0 {
		m.all = m.all.With(s)
	}
	m.data = append(m.data, b...)
	m.streams = append(m.streams, bytes.Repeat([]byte{byte(s)}, len(b))...)
}

// skipped is the stream of bytes that a [output.Log.Skip] has dropped: no reader must be shown them.
const skipped = 0xff

// Skip does what [output.Log.Skip] does for n bytes.
func (m *Model) Skip(n int) {
	m.data = append(m.data, make([]byte, n)...)
	m.streams = append(m.streams, bytes.Repeat([]byte{skipped}, n)...)
}

// Finish does what [output.Log.Finish] does.
func (m *Model) Finish() {
	if !m.finished {
		m.finished, m.final = true, m.End()
	}
}

// CheckRead reads at most limit bytes of the log at cursor and fails the test if any of them is not
// the byte that was written there.
func (m *Model) CheckRead(t testing.TB, l output.Reader, cursor int64, limit int) output.Chunk {
	t.Helper()
	c := l.Read(cursor, limit)
	if limit > 0 {
		into := make([]byte, min(limit, 1<<20))
		again := l.ReadInto(cursor, into)
		m.checkSpans(t, again)
		if len(again.Spans) > 0 && &again.Spans[0].Data[0] != &into[0] {
			t.Fatalf("read at %d into other memory", cursor)
		}
	}
	end := m.End()
	cursor = min(max(cursor, 0), end)
	if c.From != cursor+c.Dropped || c.From < cursor || c.From > end || c.Next < c.From || c.Next > end || c.Next-c.From > int64(max(limit, 0)) {
		t.Fatalf("read at %d of %d, at most %d: from %d to %d, dropped %d", cursor, end, limit, c.From, c.Next, c.Dropped)
	}
	if limit > 0 && c.Next == c.From && c.From < end {
		t.Fatalf("read at %d of %d returned nothing", cursor, end)
	}
	m.checkSpans(t, c)
	return c
}

// checkSpans fails the test if the spans of c are not what was written from c.From to c.Next.
func (m *Model) checkSpans(t testing.TB, c output.Chunk) {
	t.Helper()
	at := c.From
	for i, s := range c.Spans {
		to := at + int64(len(s.Data))
		if len(s.Data) == 0 || i > 0 && c.Spans[i-1].Stream == s.Stream {
			t.Fatalf("span %d of %v is empty or continues the stream of the one before", i, c.Spans)
		}
		if to > c.Next || !bytes.Equal(s.Data, m.data[at:to]) {
			t.Fatalf("bytes at %d: got %q", at, s.Data)
		}
		if want := bytes.Repeat([]byte{byte(s.Stream)}, len(s.Data)); !bytes.Equal(want, m.streams[at:to]) {
			t.Fatalf("streams at %d: got %v of %q, want %v", at, s.Stream, s.Data, m.streams[at:to])
		}
		at = to
	}
	if at != c.Next {
		t.Fatalf("spans end at %d, next is %d", at, c.Next)
	}
}

// Compare reads the whole log, limit bytes at a time, and fails the test if the log shows a byte
// that was not written, or does not count exactly the bytes that are gone. No other goroutine can
// write meanwhile.
func (m *Model) Compare(t testing.TB, l output.Reader, limit int) {
	t.Helper()
	var gaps []output.Range
	for cursor := int64(0); cursor < m.End(); {
		c := m.CheckRead(t, l, cursor, limit)
		if c.Dropped > 0 {
			gaps = append(gaps, output.Range{From: min(cursor, m.End()), To: c.From})
		}
		cursor = c.Next
	}
	st := l.Stat()
	final := m.final
	if !m.finished {
		final = -1
	}
	if st.End != m.End() || st.Final != final {
		t.Fatalf("end %d, final %d; want %d, %d", st.End, st.Final, m.End(), final)
	}
	m.compareGaps(t, st, gaps)
	m.compareStreams(t, l, st.Gaps)
	least := min(int64(limit), m.End(), 1)
	if Contains(st.Gaps, m.End()-1) {
		least = 0
	}
	if got := output.Tail(l, limit); len(got) > limit || !bytes.HasSuffix(m.data, got) || len(got) < int(least) {
		t.Fatalf("tail: %q", got)
	}
}

// Reread returns a copy of m for a log of a past run that was finished at final. It can find what
// was gone for others.
func (m *Model) Reread(final int64) *Model {
	other := *m
	other.gone, other.finished, other.final = nil, true, final
	return &other
}

// compareGaps checks the gaps of st: they are those that a reader met, are counted to the byte, and
// never become readable again.
func (m *Model) compareGaps(t testing.TB, st output.Stat, met []output.Range) {
	t.Helper()
	if d := cmp.Diff(st.Gaps, met); d != "" {
		t.Fatalf("gaps counted and gaps met: %s", d)
	}
	sum := int64(0)
	for _, g := range st.Gaps {
		sum += g.To - g.From
	}
	if sum != st.Dropped || st.Loss.Cap+st.Loss.Disk+st.Loss.Limit != st.Dropped {
		t.Fatalf("dropped %d, gaps are %d, by cause %+v", st.Dropped, sum, st.Loss)
	}
	for _, g := range m.gone {
		if !Contains(st.Gaps, g.From) || !Contains(st.Gaps, g.To-1) {
			t.Fatalf("%v was gone, now %v is", g, st.Gaps)
		}
	}
	m.gone = st.Gaps
}

// compareStreams checks the streams of some ranges: exactly if nothing of a range is gone.
func (m *Model) compareStreams(t testing.TB, l output.Reader, gaps []output.Range) {
	t.Helper()
	end := m.End()
	var gone output.Streams
	for _, g := range gaps {
		if gone |= m.streamsOf(g); bytes.IndexByte(m.streams[g.From:g.To], skipped) >= 0 {
			gone = ^output.Streams(0)
		}
	}
	for _, r := range []output.Range{{To: end}, {From: end / 3, To: end}, {From: end / 3, To: end/3 + 1}, {From: end / 4, To: end / 2},
		{From: end - 5, To: end + 5}, {From: -1, To: end - 1}, {From: end, To: end}} {
		got, want := l.Streams(r.From, r.To), m.streamsOf(r)
		most := want
		for _, g := range gaps {
			if g.From < r.To && r.From < g.To {
				most |= gone
			}
		}
		if m.VagueStreams {
			most = ^output.Streams(0)
		}
		if got&want != want || got&^most != 0 {
			t.Fatalf("streams of %v, of %d with gaps %v: %03b, want %03b, at most %03b", r, end, gaps, got, want, most)
		}
	}
}

func (m *Model) streamsOf(r output.Range) (set output.Streams) {
	from := max(0, r.From)
	for _, s := range m.streams[from:max(from, min(r.To, m.End()))] {
		if s == skipped {
			continue
		}
		if set = set.With(output.Stream(s)); set == m.all {
			break
		}
	}
	return set
}

// Contains reports whether one of the ranges contains byte n.
func Contains(ranges []output.Range, n int64) bool {
	for _, r := range ranges {
		if r.From <= n && n < r.To {
			return true
		}
	}
	return false
}
