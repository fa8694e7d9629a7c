package jobs

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oklog/ulid/v2"

	"asyncrepl/internal/output"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/racetest"
)

func titles(records []Record) string {
	var all []string
	for _, i := range records {
		all = append(all, i.Title)
	}
	return strings.Join(all, " ")
}

func TestIDsCantBeGuessed(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s stage) {
		var ids []string
		seen := make(map[byte]bool) // of the last byte but one, which counts up in ids that can be guessed
		for range 200 {
			id := s.begin(Spec{}).ID()
			u, err := ulid.ParseStrict(id)
			if err != nil || u.Time() != ulid.Timestamp(time.Now()) {
				t.Fatalf("%s: %v, time %v", id, err, u.Timestamp())
			}
			ids = append(ids, id)
			seen[u.Entropy()[0]] = true
		}
		// All are of one millisecond. Sorted by chance: once in 200!
		if slices.IsSorted(ids) {
			t.Error("ids of one millisecond are in order: they can be guessed")
		}
		if len(seen) < 50 {
			t.Errorf("%d different first random bytes in 200 ids", len(seen))
		}
		slices.Sort(ids)
		if len(slices.Compact(ids)) != 200 {
			t.Error("an id was given twice")
		}
	})
}

func TestGetNamesTheNearestJobs(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s stage) {
		var mine []puppet
		for _, title := range []string{"a", "b", "c", "d", "e"} {
			mine = append(mine, s.begin(Spec{Title: title}))
			pass(time.Hour)
		}
		if j, err := s.Get(mine[2].ID()); err != nil || j != mine[2].Job {
			t.Errorf("got %v, %v", j, err)
		}
		wrong := func(id string) string { // one letter changed
			b := []byte(id)
			b[20] = map[bool]byte{true: 'Z', false: 'Y'}[b[20] != 'Z']
			return string(b)
		}
		for name, tc := range map[string]struct {
			id    string
			first string // the nearest
		}{
			"one letter wrong":       {wrong(mine[1].ID()), "b"},
			"cut off":                {mine[3].ID()[:20], "d"},
			"a letter too many":      {mine[2].ID() + "0", "c"},
			"empty":                  {"", "e"},
			"long beyond all reason": {strings.Repeat("no such job ", 100_000), ""},
		} {
			_, err := s.Get(tc.id)
			var e *NotFoundError
			if !errors.As(err, &e) || e.ID != tc.id || e.Forgotten || len(e.Nearest) != 3 {
				t.Errorf("%s: got %+v", name, e)
				continue
			}
			got := strings.Fields(titles(e.Nearest))
			if tc.first != "" && got[0] != tc.first {
				t.Errorf("%s: nearest: %v, want %s first", name, got, tc.first)
			}
		}
	})
}

// An id from before the server was another one's, unless the clock was set back and it is ours.
func TestIDsOfAnEarlierServer(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, _ stage) {
		earlier := func(r *Registry, id string) bool {
			_, err := r.Find(id)
			var e *NotFoundError
			return errors.As(err, &e) && e.Earlier
		}
		pass(500 * time.Millisecond)
		at := func(d time.Duration) string { return newID(time.Now().Add(d)) }
		past, clock := at(-time.Millisecond), newID(time.Now().Add(-time.Hour)) // made before the registry
		r := NewRegistry(Config{})
		defer r.Close(Stop{By: Shutdown})
		pass(time.Hour)
		for id, want := range map[string]bool{
			past: true, strings.ToLower(past): true, at(-2 * time.Hour)[:10]: true, at(-30 * 24 * time.Hour)[:8]: true,
			past[:8]: true, past[:25]: true, at(-2 * 365 * 24 * time.Hour): true, strings.Repeat("0", 26): true,
			at(-time.Hour): false, at(0): false, at(time.Hour): false, past[:7]: false, "": false, "x": false,
			"1": false, "0000000": false, "01234567-0123-0123-0123-0123456789ab": false, past + past: false,
			"00000000": false, "00112233": false, "deadbeef": false, at(-2 * 365 * 24 * time.Hour)[:8]: false,
		} {
			if got := earlier(r, id); got != want {
				t.Errorf("%q: earlier %v, want %v", id, got, want)
			}
		}
		r.mu.Lock()
		r.issue(time.Now().Add(-3 * time.Hour)) // the clock was set back while the registry gave ids
		r.mu.Unlock()
		if earlier(r, clock) {
			t.Error("an id that the registry can have given is of an earlier server")
		}
		if other := NewRegistry(Config{Since: time.Now().Add(-4 * time.Hour)}); earlier(other, clock) {
			t.Error("an id is of an earlier server, although this one was there before its registry")
		}
	})
}

func TestFind(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s stage) {
		a := s.begin(Spec{Title: "a"})
		pass(time.Hour)
		b, c := s.begin(Spec{Title: "b"}), s.begin(Spec{Title: "c"})
		for name, tc := range map[string]struct {
			id    string
			found *Job
		}{
			"all of it":      {a.ID(), a.Job},
			"small letters":  {strings.ToLower(a.ID()), a.Job},
			"between blanks": {" \t" + b.ID() + "\n", b.Job},
			"the beginning":  {a.ID()[:8], a.Job},
			"all but one":    {" " + strings.ToLower(c.ID()[:25]), c.Job},
			"too little":     {a.ID()[:7], nil},
			"the end":        {a.ID()[18:], nil},
			"more than it":   {a.ID() + "0", nil},
		} {
			j, err := s.Find(tc.id)
			var missing *NotFoundError
			if j != tc.found || tc.found == nil && (!errors.As(err, &missing) || missing.ID != tc.id) {
				t.Errorf("%s: got %v, %v", name, j, err)
			}
		}
		_, err := s.Find(strings.ToLower(b.ID()[:8]))
		var several *AmbiguousError
		if !errors.As(err, &several) || several.Prefix != b.ID()[:8] || titles(several.Jobs) != "c b" {
			t.Errorf("of two jobs: %v", err)
		}
		for _, id := range []string{strings.ToLower(b.ID()), " " + b.ID() + " "} {
			if j, err := s.Get(id); j != b.Job {
				t.Errorf("got %v, %v", j, err)
			}
			if got := titles(s.List(Filter{Before: id})); got != "a" {
				t.Errorf("before it: %q", got)
			}
		}
		if _, err := s.Get(a.ID()[:25]); err == nil {
			t.Error("a part of an id was taken for all of it")
		}
	})
}

func TestListFilters(t *testing.T) {
	bubble(t, Config{Keep: 3}, func(t *testing.T, s stage) {
		gone := s.begin(Spec{Title: "gone"})
		gone.end(Receipt{End: Returned})
		pass(time.Hour)
		byTitle := make(map[string]puppet)
		for i, title := range []string{"a", "b", "c", "d", "e", "f"} {
			// All within a millisecond: the order is that of their starts, not of their ids.
			p := s.begin(Spec{Title: title, Session: []string{"even", "odd"}[i%2]})
			if i < 3 {
				p.end(Receipt{End: Raised})
			}
			byTitle[title] = p
		}
		byTitle["e"].port.SetWaiting(Question{})
		synctest.Wait() // for the registry to forget one

		for name, tc := range map[string]struct {
			filter Filter
			want   string
		}{
			"all":              {Filter{}, "f e d c b a"},
			"session":          {Filter{Session: "odd"}, "f d b"},
			"status":           {Filter{Status: []Status{Failed}}, "c b a"},
			"statuses":         {Filter{Status: []Status{WaitingInput, Failed}}, "e c b a"},
			"limit":            {Filter{Limit: 2}, "f e"},
			"limit of matches": {Filter{Limit: 2, Session: "even"}, "e c"},
			"before":           {Filter{Before: byTitle["d"].ID()}, "c b a"},
			"a page":           {Filter{Before: byTitle["e"].ID(), Limit: 2}, "d c"},
			"before the first": {Filter{Before: byTitle["a"].ID()}, ""},
			"before forgotten": {Filter{Before: gone.ID()}, ""},
			"before no id":     {Filter{Before: "nonsense"}, ""},
			"unknown session":  {Filter{Session: "none"}, ""},
		} {
			if got := titles(s.List(tc.filter)); got != tc.want {
				t.Errorf("%s: got %q, want %q", name, got, tc.want)
			}
		}
		later := ulid.MustNew(ulid.Timestamp(time.Now().Add(time.Hour)), bytes.NewReader(make([]byte, 10))).String()
		if got := titles(s.List(Filter{Before: later, Limit: 1})); got != "f" {
			t.Errorf("before an id of a later time: got %q", got)
		}
	})
}

func TestCloseWaitsForEveryJob(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s stage) {
		slow := s.begin(Spec{})
		slow.port.Write(output.Stdout, []byte("still there"))
		ended := s.begin(Spec{})
		ended.end(Receipt{End: Returned})
		closed := make(chan time.Time)
		go func() { s.Close(Stop{By: Shutdown}); closed <- time.Now() }() // ends with slow
		<-slow.ctx.Done()
		if _, err := s.Start(Spec{}, nil); err != ErrShutdown {
			t.Errorf("start while closing: %v", err)
		}
		_, raised := slow.port.Wanted()
		go s.Close(Stop{By: Shutdown, From: Kill}) // ends with slow
		<-raised
		st := slow.port.Stop()
		if st.From != Kill {
			t.Errorf("got %+v, want it raised", st)
		}
		pass(time.Second)
		at := time.Now()
		slow.end(Receipt{End: Signaled, Stop: st, Rungs: []Rung{Kill}})
		if end := <-closed; !end.Equal(at) {
			t.Errorf("close returned at %v, the job ended at %v", end, at)
		}
		i, c := slow.Read(0, 100)
		if i.Receipt.Text() != "cancelled (killed by shutdown)" || text(c) != "still there" {
			t.Errorf("got %q with %q", i.Receipt.Text(), text(c))
		}
	})
}

// A job with 4 KB of output, and the goroutine that runs it, take well under 20 KB.
func TestSmallJobIsSmall(t *testing.T) {
	got := jobSize(t, 500)
	t.Logf("%d bytes each", got)
	if got > 20_000*racetest.Memory {
		t.Errorf("a job takes %d bytes", got)
	}
}

// jobSize returns how much memory one of n jobs takes that has written 4 KB.
func jobSize(tb testing.TB, n int) int {
	used := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc + m.StackInuse)
	}
	r := NewRegistry(Config{MaxRunning: n})
	defer r.Close(Stop{By: Shutdown})
	line := bytes.Repeat([]byte("x"), 64)
	ready := make(chan struct{})
	before := used()
	for range n {
		must.Get(r.Start(Spec{Timeout: time.Hour}, runFunc(func(ctx context.Context, p *Port) Outcome {
			p.Begin()
			for range 64 {
				p.Write(output.TTY, line)
			}
			ready <- struct{}{}
			<-ctx.Done()
			return Outcome{Receipt: Receipt{End: Returned}}
		})))(tb)
	}
	for range n {
		<-ready
	}
	return (used() - before) / n
}

// Changes of the list of jobs are announced: that a job is started, changes and is forgotten.
func TestChangesOfTheListAreAnnounced(t *testing.T) {
	bubble(t, Config{Keep: 1}, func(t *testing.T, s stage) {
		changed := s.Changed()
		announced := func(what string, want bool) {
			t.Helper()
			synctest.Wait()
			select {
			case <-changed:
				if changed = s.Changed(); !want {
					t.Errorf("%s is announced", what)
				}
			default:
				if want {
					t.Errorf("%s is not announced", what)
				}
			}
		}
		first := s.begin(Spec{})
		announced("a start", true)
		first.port.Write(output.Stdout, []byte("more"))
		announced("output", false)
		first.port.SetWaiting(Question{Kind: "line"})
		announced("a question", true)
		first.end(Receipt{End: Returned})
		announced("an end", true)
		second := s.begin(Spec{})
		announced("another start", true)
		second.end(Receipt{End: Returned})
		announced("another end", true)
		if list := s.List(Filter{}); len(list) != 1 {
			t.Fatalf("%d jobs are kept", len(list))
		}
		pass(8 * 24 * time.Hour)
		announced("the oldest is forgotten", true)
		if list := s.List(Filter{}); len(list) != 0 {
			t.Errorf("%d jobs are kept", len(list))
		}
	})
}

// A caller that has the list as it was at a moment gets the jobs that have changed since, and the ids of those
// that were forgotten since.
func TestChangedSince(t *testing.T) {
	bubble(t, Config{Keep: 2}, func(t *testing.T, s stage) {
		mark := s.Now()
		since := func(changed, forgotten string) {
			t.Helper()
			synctest.Wait()
			list, gone, now := s.ChangedSince(mark)
			var titles []string
			for _, j := range list {
				titles = append(titles, j.Record().Title)
			}
			if got := strings.Join(titles, ","); got != changed || strings.Join(gone, ",") != forgotten {
				t.Errorf("changed %q, forgotten %q; want %q and %q", got, gone, changed, forgotten)
			}
			mark = now
		}
		since("", "")
		begun := Mark{}
		a, b := s.begin(Spec{Title: "a"}), s.begin(Spec{Title: "b"})
		since("a,b", "")
		since("", "")
		a.port.Write(output.Stdout, []byte("more"))
		since("", "")
		b.port.SetWaiting(Question{Kind: "line"})
		since("b", "")
		a.end(Receipt{End: Returned})
		b.end(Receipt{End: Returned})
		since("a,b", "")
		s.begin(Spec{Title: "c"}).end(Receipt{End: Returned})
		since("c", a.ID())
		s.begin(Spec{Title: "d"}).end(Receipt{End: Returned})
		since("d", b.ID())
		mark = begun
		since("c,d", a.ID()+","+b.ID())
	})
}
