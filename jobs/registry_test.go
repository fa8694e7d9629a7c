package jobs

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/oklog/ulid/v2"
)

func titles(infos []Info) string {
	var all []string
	for _, i := range infos {
		all = append(all, i.Title)
	}
	return strings.Join(all, " ")
}

func TestIDs(t *testing.T) {
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

func TestGet(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s stage) {
		var mine []puppet
		for _, title := range []string{"a", "b", "c", "d", "e"} {
			mine = append(mine, s.begin(Spec{Tenant: "me", Title: title}))
			pass(time.Hour)
		}
		theirs := s.begin(Spec{Tenant: "they", Title: "secret"})

		if j, err := s.Get("me", mine[2].ID()); err != nil || j != mine[2].Job {
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
			"small letters":          {strings.ToLower(mine[0].ID()), "a"},
			"a letter too many":      {mine[2].ID() + "0", "c"},
			"of another tenant":      {theirs.ID(), ""},
			"empty":                  {"", "e"},
			"long beyond all reason": {strings.Repeat("no such job ", 100_000), ""},
		} {
			_, err := s.Get("me", tc.id)
			var e *NotFoundError
			if !errors.As(err, &e) || e.ID != tc.id || e.Forgotten || len(e.Nearest) != 3 {
				t.Errorf("%s: got %+v", name, e)
				continue
			}
			got := strings.Fields(titles(e.Nearest))
			if slices.Contains(got, "secret") || tc.first != "" && got[0] != tc.first {
				t.Errorf("%s: nearest: %v, want %s first", name, got, tc.first)
			}
		}
	})
}

func TestDistance(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0}, {"abc", "abd", 1}, {"kitten", "sitting", 3}, {"bc", "abc", 1}} {
		if got := distance(tc.a, tc.b); got != tc.want {
			t.Errorf("from %q to %q: got %d, want %d", tc.a, tc.b, got, tc.want)
		}
	}
}

func TestList(t *testing.T) {
	bubble(t, Config{Keep: 3}, func(t *testing.T, s stage) {
		gone := s.begin(Spec{Tenant: "me", Title: "gone"})
		gone.end(Receipt{End: Returned})
		pass(time.Hour)
		byTitle := make(map[string]puppet)
		for i, title := range []string{"a", "b", "c", "d", "e", "f"} {
			// All within a millisecond: the order is that of their starts, not of their ids.
			p := s.begin(Spec{Tenant: "me", Title: title, Session: []string{"even", "odd"}[i%2]})
			if i < 3 {
				p.end(Receipt{End: Raised})
			}
			byTitle[title] = p
		}
		s.begin(Spec{Tenant: "they", Title: "secret"})
		byTitle["e"].port.Waits(Question{})
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
			"nobody's session": {Filter{Session: "none"}, ""},
		} {
			if got := titles(s.List("me", tc.filter)); got != tc.want {
				t.Errorf("%s: got %q, want %q", name, got, tc.want)
			}
		}
		later := ulid.MustNew(ulid.Timestamp(time.Now().Add(time.Hour)), bytes.NewReader(make([]byte, 10))).String()
		if got := titles(s.List("me", Filter{Before: later, Limit: 1})); got != "f" {
			t.Errorf("before an id of a later time: got %q", got)
		}
	})
}

func TestTooMany(t *testing.T) {
	bubble(t, Config{MaxRunning: 2}, func(t *testing.T, s stage) {
		s.begin(Spec{Tenant: "they"})
		mine := s.queue(Spec{Tenant: "me", Title: "oldest"})
		_, err := s.Start(Spec{Tenant: "me"}, nil)
		var e *TooManyError
		if !errors.As(err, &e) || e.Limit != 2 || e.Oldest.Title != "oldest" {
			t.Fatalf("got %v", err)
		}
		if _, err := s.Start(Spec{Tenant: "third"}, nil); !errors.As(err, &e) || e.Oldest.ID != "" {
			t.Fatalf("told a third of %q, %v", e.Oldest.ID, err)
		}
		mine.end(Receipt{End: NotRun})
		s.begin(Spec{Tenant: "me"})
	})
}

func TestClose(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s stage) {
		slow := s.begin(Spec{})
		slow.port.Write(Stdout, []byte("still there"))
		ended := s.begin(Spec{})
		ended.end(Receipt{End: Returned})
		closed := make(chan time.Time)
		go func() { s.Close(Stop{By: Shutdown}); closed <- time.Now() }() // ends with slow
		<-slow.ctx.Done()
		if _, err := s.Start(Spec{}, nil); err != ErrShutdown {
			t.Errorf("start while closing: %v", err)
		}
		_, raised := slow.port.Stop()
		go s.Close(Stop{By: Shutdown, From: Kill}) // ends with slow
		<-raised
		st, _ := slow.port.Stop()
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

func TestRetention(t *testing.T) {
	kept := func(s stage) string { return titles(s.List("", Filter{})) }
	forgotten := func(s stage, id string) bool {
		_, err := s.Get("", id)
		var e *NotFoundError
		return errors.As(err, &e) && e.Forgotten
	}
	done := func(s stage, title string) puppet {
		p := s.begin(Spec{Title: title})
		p.end(Receipt{End: Returned})
		synctest.Wait()
		return p
	}
	left := func(context.Context, Stop) ([]Process, []Process) { return nil, nil }

	t.Run("by number", func(t *testing.T) {
		bubble(t, Config{Keep: 2}, func(t *testing.T, s stage) {
			runs := s.begin(Spec{Title: "runs"})
			a := done(s, "a")
			a.port.Write(Stdout, []byte("x"))
			done(s, "b")
			done(s, "c")
			if got := kept(s); got != "c b runs" {
				t.Errorf("kept %q", got)
			}
			if !forgotten(s, a.ID()) || forgotten(s, runs.ID()) {
				t.Error("it is not said which id was forgotten")
			}
			if _, err := s.Get("they", a.ID()); err.(*NotFoundError).Forgotten {
				t.Error("another tenant hears that there was such a job")
			}
			a.port.Write(Stdout, []byte("y")) // what it left may still write
		})
	})
	t.Run("of each tenant", func(t *testing.T) {
		bubble(t, Config{Keep: 2}, func(t *testing.T, s stage) {
			theirs := s.begin(Spec{Tenant: "they", Title: "theirs"})
			theirs.end(Receipt{End: Returned})
			for _, title := range []string{"a", "b", "c"} {
				done(s, title)
			}
			if got := kept(s); got != "c b" {
				t.Errorf("kept %q", got)
			}
			if got := titles(s.List("they", Filter{})); got != "theirs" {
				t.Errorf("another's jobs took their place: kept %q", got)
			}
		})
	})
	t.Run("in the order of their ends", func(t *testing.T) {
		bubble(t, Config{Keep: 2}, func(t *testing.T, s stage) {
			a := s.begin(Spec{Title: "a"})
			a.port.Leaves(left)
			a.end(Receipt{End: Exited})
			pass(time.Second)
			for _, title := range []string{"b", "c"} {
				done(s, title)
				pass(time.Second)
			}
			if got := kept(s); got != "c b a" {
				t.Errorf("kept %q", got)
			}
			a.port.Leaves(nil)
			done(s, "d")
			if got := kept(s); got != "d c" {
				t.Errorf("kept %q, want the two that ended last", got)
			}
		})
	})
	t.Run("by age", func(t *testing.T) {
		bubble(t, Config{}, func(t *testing.T, s stage) {
			const day = 24 * time.Hour
			a := done(s, "a")
			pass(day)
			done(s, "b")
			pass(6*day - time.Second)
			if got := kept(s); got != "b a" {
				t.Errorf("kept %q a second before the first is 7 days old", got)
			}
			pass(time.Second)
			synctest.Wait()
			if got := kept(s); got != "b" || !forgotten(s, a.ID()) {
				t.Errorf("kept %q after 7 days", got)
			}
			pass(day)
			synctest.Wait()
			if got := kept(s); got != "" {
				t.Errorf("kept %q after 8 days", got)
			}
		})
	})
	t.Run("not with something left running", func(t *testing.T) {
		bubble(t, Config{Keep: 1, MaxAge: time.Hour}, func(t *testing.T, s stage) {
			a := s.begin(Spec{Title: "a"})
			a.port.Leaves(left)
			a.end(Receipt{End: Exited})
			done(s, "b")
			if got := kept(s); got != "b a" {
				t.Errorf("kept %q", got)
			}
			pass(2 * time.Hour)
			synctest.Wait()
			if got := kept(s); got != "a" {
				t.Errorf("kept %q after it is too old", got)
			}
			a.port.Leaves(nil)
			done(s, "c")
			if got := kept(s); got != "c" {
				t.Errorf("kept %q when nothing is left", got)
			}
		})
	})
}

func TestRemains(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s stage) {
		p := s.begin(Spec{})
		var asked Stop
		p.port.Leaves(func(_ context.Context, st Stop) ([]Process, []Process) {
			asked = st
			return []Process{{812, "npm"}}, []Process{{813, "sleep"}}
		})
		if _, _, any := p.EndRemains(t.Context(), Stop{By: Agent}); any {
			t.Error("remains of a job that has not ended")
		}
		p.end(Receipt{End: Exited, Left: []Process{{812, "npm"}}})
		ended, survivors, any := p.EndRemains(t.Context(), Stop{By: Agent})
		if !any || len(ended) != 1 || len(survivors) != 1 || asked.From != Interrupt || asked.Step != DefaultStep {
			t.Errorf("got %v, %v, %t; asked %+v", ended, survivors, any, asked)
		}
		before := p.Info().Receipt
		changed := p.Changed()
		p.port.Late(func(r *Receipt) { r.Left[0].Program = "gone"; r.Notes = append(r.Notes, "ended later") })
		p.port.Leaves(nil)
		<-changed
		if _, _, any := p.EndRemains(t.Context(), Stop{}); any {
			t.Error("remains after they are gone")
		}
		if d := cmp.Diff([]Process{{812, "npm"}}, before.Left); d != "" {
			t.Errorf("a snapshot changed: %s", d)
		}
		if r := p.Info().Receipt; r.Left[0].Program != "gone" || len(r.Notes) != 1 {
			t.Errorf("amended: %+v", r)
		}
		if got := before.Left[0].String(); got != "npm (pid 812)" {
			t.Errorf("got %q", got)
		}
	})
}

// failing is a store whose disk is gone.
type failing struct{ Store }

func (failing) Save(Info) error     { return errors.New("no space") }
func (failing) Remove(string) error { return errors.New("no space") }

func TestStoreErrorsAreLogged(t *testing.T) {
	var log bytes.Buffer
	c := Config{Store: failing{NewMemory(LogConfig{})}, Keep: 1, Log: slog.New(slog.NewTextHandler(&log, nil))}
	bubble(t, c, func(t *testing.T, s stage) {
		for range 2 {
			if i := s.begin(Spec{}).end(Receipt{End: Returned}); i.Status != Completed {
				t.Errorf("got %s", i.Status)
			}
		}
		synctest.Wait() // for the registry to forget one: nothing is forgotten once it closes
	})
	for line, want := range map[string]int{"saving job": 4, "removing job": 1} {
		if got := strings.Count(log.String(), line); got != want {
			t.Errorf("%q stands %d times in the log, want %d:\n%s", line, got, want, &log)
		}
	}
}

// A job with 4 KB of output, and the goroutine that runs it, take well under 20 KB.
func TestSmallJobIsSmall(t *testing.T) {
	got := jobSize(t, 500)
	t.Logf("%d bytes each", got)
	if got > 20_000 {
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
		_, err := r.Start(Spec{Timeout: time.Hour}, runFunc(func(ctx context.Context, p *Port) Outcome {
			p.Begin()
			for range 64 {
				p.Write(TTY, line)
			}
			ready <- struct{}{}
			<-ctx.Done()
			return Outcome{Receipt: Receipt{End: Returned}}
		}))
		if err != nil {
			tb.Fatal(err)
		}
	}
	for range n {
		<-ready
	}
	return (used() - before) / n
}
