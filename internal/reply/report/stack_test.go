package report

import (
	"strings"
	"testing"

	"asyncrepl/internal/text/callstack"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// A sight is a looker that always sees the same.
type sight callstack.Stack

func (s sight) Look() (callstack.Stack, error) { return callstack.Stack(s), nil }

// A reply has the stack of a running job if it is asked for, and room for both.
func TestStackHasItsPlace(t *testing.T) {
	deep := make([]callstack.Call, 200)
	for i := range deep {
		deep[i] = callstack.Call{File: "/w/" + strings.Repeat("long", 20) + ".py", Function: "f", Line: i, Source: strings.Repeat("x", 80)}
	}
	r := jobstest.Registry(t)
	j := jobstest.Start(t, r, jobs.Spec{Kind: jobs.Python}, script{hangs: true, write: func(p *jobs.Port) {
		p.SetLooker(sight{Calls: deep})
		flood(p, 2000)
		out(p, "written")
	}})
	jobstest.Prints(t, j, "written")
	var rp Reporter
	if r := rp.Job(j, Window{MaxChars: 2000}); field(r, "At") != "" || strings.Contains(r.String(), "STACK") {
		t.Errorf("a reply that was not asked for it: %s", r)
	}
	for _, n := range []int{0, 100, 499, 500, 700, 1000, 2000, 5000, 16000, maxChars} {
		r := rp.Job(j, Window{MaxChars: n, Look: true})
		_, stack, _ := strings.Cut(r.String(), "--- STACK ---\n")
		if field(r, "At") == "" || chars(stack) > 2100 || n >= 1000 && !strings.HasPrefix(stack, "(1") {
			t.Errorf("MaxChars %d: %s", n, r)
		}
		if n >= 500 && (r.Chars() > n || !strings.Contains(r.String(), "--- STDOUT ---\nline 0")) {
			t.Errorf("MaxChars %d: %d characters: %s", n, r.Chars(), r)
		}
	}
	j.Stop(jobs.Stop{By: jobs.Agent, From: jobs.Interrupt})
	jobstest.End(t, j)
	if r := rp.Job(j, Window{MaxChars: 2000, Look: true}); field(r, "At") != "" {
		t.Errorf("an ended job: %s", r)
	}
}
