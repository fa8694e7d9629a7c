package jobs

import "testing"

// checkStreams holds what the log says of the streams of some ranges against the
// model: exact where nothing is gone, and else nothing that is not there or gone.
func (m *model) checkStreams(t *testing.T, l *Log, gaps []Range, exact bool) {
	t.Helper()
	end := int64(len(m.data))
	in := func(from, to int64) (set Streams) {
		for _, s := range m.streams[max(0, from):max(0, from, min(to, end))] {
			set = set.with(Stream(s))
		}
		return set
	}
	for _, r := range []Range{{0, end}, {end / 3, end}, {end / 3, end/3 + 1}, {end / 4, end / 2}, {end - 5, end + 5}, {-1, end - 1}, {end, end}} {
		got, want, most := l.Streams(r.From, r.To), in(r.From, r.To), in(0, end)
		if exact {
			most = want
			for _, g := range gaps {
				if g.From < r.To && r.From < g.To {
					most |= goneStreams(gaps, in)
				}
			}
		}
		if got&want != want || got&^most != 0 {
			t.Fatalf("streams of %v, of %d with gaps %v: %03b, want %03b, at most %03b", r, end, gaps, got, want, most)
		}
	}
}

func goneStreams(gaps []Range, in func(from, to int64) Streams) (set Streams) {
	for _, g := range gaps {
		set |= in(g.From, g.To)
	}
	return set
}

// Which streams a range has is told without reading more than its borders.
func TestStreamsOfALongLog(t *testing.T) {
	l, _ := spilling(t, 0)
	l.Write(Stderr, []byte("careful\n"))
	line := make([]byte, 64<<10)
	for range 200 {
		l.Write(Stdout, line)
	}
	l.Write(Stderr, []byte("Traceback\n"))
	end := l.Stat().End
	for r, want := range map[Range]string{
		{0, end}:      "stdout stderr",
		{8, end - 10}: "stdout",
		{7, end - 10}: "stdout stderr",
		{8, end - 9}:  "stdout stderr",
		{0, 8}:        "stderr",
		{8, 8}:        "",
	} {
		got := ""
		for _, s := range []Stream{Stdout, Stderr, TTY} {
			if l.Streams(r.From, r.To).Has(s) {
				got += " " + s.String()
			}
		}
		if got != "" {
			got = got[1:]
		}
		if got != want {
			t.Errorf("%v: %q, want %q", r, got, want)
		}
	}
}
