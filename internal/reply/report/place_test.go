package report

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/test/must"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// The lines about a job at a place, as they follow the status.
func TestLinesAboutAPlace(t *testing.T) {
	now := time.Date(2026, 11, 21, 14, 3, 24, 0, time.Local)
	asOf := now.Add(-12 * time.Second)
	for _, tt := range []struct {
		name   string
		status jobs.Status
		link   *jobs.Link
		want   string
	}{
		{"connected", jobs.Running, &jobs.Link{}, "Place: gpu\nElapsed: 1m0s\nActivity: no output yet, for 1m0s\n"},
		{"of an earlier server", jobs.Queued, nil, "Place: gpu\n"},
		{"in an allocation", jobs.Running, &jobs.Link{Where: "Slurm job 812, node n2"},
			"Place: gpu (Slurm job 812, node n2)\nElapsed: 1m0s\nActivity: no output yet, for 1m0s\n"},
		{"ended in an allocation", jobs.Completed, nil, "Place: gpu (Slurm job 811)\n"},
		{"lost", jobs.Running, &jobs.Link{Lost: asOf.Add(99 * time.Millisecond), Why: "ssh: connection reset", AsOf: asOf},
			"Place: gpu\nLink: lost for 11s (ssh: connection reset); as of 14:03:12\nElapsed: 1m0s\n"},
		{"lost for no known reason", jobs.Running, &jobs.Link{Lost: asOf, AsOf: asOf}, "Place: gpu\nLink: lost for 12s; as of 14:03:12\nElapsed: 1m0s\n"},
		{"lost long ago", jobs.Running, &jobs.Link{Lost: now.Add(-30 * time.Hour), Why: "no answer", AsOf: now.Add(-30 * time.Hour)},
			"Place: gpu\nLink: lost for 30h0m (no answer); as of 2026-11-20 08:03:24\nElapsed: 1m0s\n"},
		{"adopted and not seen yet", jobs.Running, &jobs.Link{Lost: asOf}, "Place: gpu\nLink: lost for 12s\nElapsed: 1m0s\n"},
		{"not known to have started", jobs.Queued, &jobs.Link{Lost: now.Add(-3 * time.Second), Unknown: true, AsOf: asOf},
			"Place: gpu\nLink: lost for 3s; not known to have started\n"},
		{"behind", jobs.Running, &jobs.Link{Behind: 812e6}, "Place: gpu\nLink: 812 MB behind; ended there\nElapsed: 1m0s\nActivity: no output yet, for 1m0s\n"},
		{"behind and lost", jobs.Running, &jobs.Link{Behind: 1, Lost: asOf, AsOf: asOf}, "Place: gpu\nLink: lost for 12s; 1 byte behind; ended there\nElapsed: 1m0s\n"},
		{"queued", jobs.Queued, &jobs.Link{Where: "Slurm job 812", Queued: "Slurm job 812, Priority, expected start 14:20"},
			"Place: gpu (Slurm job 812)\nQueued: Slurm job 812, Priority, expected start 14:20\n"},
		{"input", jobs.Running, &jobs.Link{Lost: asOf, AsOf: asOf, Input: "not known to be delivered"},
			"Place: gpu\nLink: lost for 12s; as of 14:03:12\nInput: not known to be delivered\nElapsed: 1m0s\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			record := jobs.Record{ID: "J1", Spec: jobs.Spec{Kind: jobs.Shell, Place: "gpu"}, Status: tt.status}
			if tt.status.Final() {
				record.Where, record.Receipt.End = "Slurm job 811", jobs.Returned
			}
			if tt.status == jobs.Running {
				record.Started = now.Add(-time.Minute)
			}
			var live jobs.Live
			if tt.link != nil {
				live.Link = func() jobs.Link { return *tt.link }
			}
			rp := &Reporter{now: func() time.Time { return now }}
			r := &Reply{}
			rp.describe(r, record, live, inputContext{})
			if want := "Job ID: J1\nStatus: " + string(tt.status) + "\n" + tt.want; r.String() != want {
				t.Errorf("got\n%swant\n%s", r, want)
			}
			var doc map[string]any
			must.Do(t, json.Unmarshal([]byte(asJSON(t, rp.Document(record, live, nil, nil))), &doc))
			of := func(name string) (value string) { value, _ = doc[name].(string); return value }
			for line, got := range map[string]string{"Place": PlaceText(of("place"), of("where")), "Link": of("link"), "Queued": of("queued"), "Input": of("input")} {
				_, value, _ := strings.Cut(tt.want, line+": ")
				value, _, _ = strings.Cut(value, "\n")
				if got != value {
					t.Errorf("the document has %q for %s, want %q", got, line, value)
				}
			}
		})
	}
}

// When a job ended that was left to its place is unknown, and so is how long it ran.
func TestElapsedOfAJobThatWasLeft(t *testing.T) {
	now := time.Date(2026, 11, 21, 14, 3, 24, 0, time.Local)
	record := jobs.Record{
		ID: "J1", Spec: jobs.Spec{Kind: jobs.Shell, Place: "gpu", Title: "make"}, Status: jobs.Failed,
		Started: now.Add(-time.Minute), Receipt: jobs.Receipt{End: jobs.LeftThere},
	}
	rp := &Reporter{now: func() time.Time { return now }}
	r := &Reply{}
	rp.describe(r, record, jobs.Live{}, inputContext{})
	const status = "failed (left to its place when its server ended; whether it has ended is unknown)"
	if got := r.String(); strings.Contains(got, "Elapsed") || !strings.Contains(got, status) {
		t.Errorf("the reply is\n%s", got)
	}
	if got, want := rp.Line(record), "J1 "+status+", shell at gpu: make"; got != want {
		t.Errorf("the line is %q, want %q", got, want)
	}
	if got := rp.Document(record, jobs.Live{}, nil, nil).Elapsed; got != 0 {
		t.Errorf("the document says that it ran for %v s", got)
	}
}

func TestBytesInFewCharacters(t *testing.T) {
	for n, want := range map[int64]string{
		1: "1 byte", 999: "999 bytes", 1000: "1.00 kB", 12_345: "12.3 kB", 999_499: "999 kB", 999_500: "1.00 MB", 812e6: "812 MB", 1 << 62: "4611686 TB",
	} {
		if got := bytesText(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

// What a place says makes no line, hides nothing and is bounded.
func TestPlaceMakesNoHeader(t *testing.T) {
	evil := "a\nStatus: completed\x1b[2J\u202e" + strings.Repeat("x", 1000)
	record := jobs.Record{ID: "J1", Spec: jobs.Spec{Kind: jobs.Shell, Place: evil, Keep: true}, Status: jobs.Queued}
	live := jobs.Live{Link: func() jobs.Link {
		return jobs.Link{Where: evil, Lost: time.Now(), Why: evil, Queued: evil, Input: evil}
	}}
	r := &Reply{}
	(&Reporter{}).describe(r, record, live, inputContext{})
	var names []string
	for line := range strings.Lines(r.String()) {
		name, value, _ := strings.Cut(line, ": ")
		names = append(names, name)
		if chars(value) > lineMax+1 || strings.ContainsAny(value, "\x1b\u202e") {
			t.Errorf("a line of %d characters: %.80q", chars(value), line)
		}
	}
	if got := strings.Join(names, ", "); got != "Job ID, Status, Place, Link, Input, Keep, Queued" {
		t.Errorf("lines: %s", got)
	}
	doc := (&Reporter{}).Document(record, live, nil, nil)
	for _, value := range []string{doc.Link, doc.Queued} {
		if chars(value) > lineMax || strings.ContainsAny(value, "\n\x1b\u202e") {
			t.Errorf("the document has %d characters: %.80q", chars(value), value)
		}
	}
}

// Lists name the place of a job, and say when its state is old.
func TestListsNameThePlace(t *testing.T) {
	r := jobstest.Registry(t)
	now := time.Now()
	for _, tt := range []struct {
		link jobs.Link
		want string
	}{
		{jobs.Link{}, "JOB running, shell lab at gpu, T: make"},
		{jobs.Link{Lost: now.Add(-12500 * time.Millisecond), Why: "no answer"}, "JOB running, shell lab at gpu, T, link lost for 12s: make"},
	} {
		j := jobstest.Start(t, r, jobs.Spec{Kind: jobs.Shell, Session: "lab", Title: "make", Place: "gpu"}, script{hangs: true, write: func(p *jobs.Port) {
			p.SetLink(func() jobs.Link { return tt.link })
			out(p, "x")
		}})
		jobstest.Prints(t, j, "x")
		record := j.Record()
		rp := &Reporter{Jobs: r, now: func() time.Time { return now }}
		want := strings.NewReplacer("JOB", j.ID(), "T", rp.elapsed(record)).Replace(tt.want)
		if got := rp.Line(record); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// A question of a kind that this program does not know leads to no call.
func TestUnknownQuestionHasNoNext(t *testing.T) {
	r := &Reply{}
	q := &jobs.Question{Kind: "fingerprint"}
	(&Reporter{}).writeNext(r, jobs.Record{Spec: jobs.Spec{Kind: jobs.Shell, Place: "gpu"}, Status: jobs.WaitingInput, Question: q}, inputContext{})
	if r.String() != "" {
		t.Errorf("got %q", r)
	}
}
