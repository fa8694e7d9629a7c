package waits

import (
	"testing"

	"asyncrepl/jobs"
)

// A reply of wait_for_jobs says which jobs met its condition, or how many are still missing.
func TestConditionNamesTheJobsThatMetIt(t *testing.T) {
	t.Parallel()
	runs := func(id string) jobs.Record { return jobs.Record{ID: id, Status: jobs.Running} }
	ended := func(id string, s jobs.Status) jobs.Record { return jobs.Record{ID: id, Status: s} }
	asks := func(id string) jobs.Record {
		return jobs.Record{ID: id, Status: jobs.WaitingInput, Question: &jobs.Question{Kind: "line"}}
	}
	for _, tt := range []struct {
		name    string
		records []jobs.Record
		every   bool
		want    string
	}{
		{"any, none yet", []jobs.Record{runs("a"), runs("b")}, false, "not met: 0 of 2 have ended; call again to wait longer"},
		{"any", []jobs.Record{runs("a"), ended("b", jobs.Failed)}, false, "met: job b failed"},
		{"any, one asks", []jobs.Record{asks("a"), runs("b")}, false, "met: job a waits for input"},
		{"any, four", []jobs.Record{ended("d", jobs.Completed), ended("c", jobs.Completed), ended("b", jobs.Completed), ended("a", jobs.Completed)}, false,
			"met: job a completed, job b completed, job c completed, 1 more"},
		{"all, one missing", []jobs.Record{runs("a"), ended("b", jobs.Failed)}, true, "not met: 1 of 2 have ended; call again to wait longer"},
		{"all, one asks", []jobs.Record{asks("a"), ended("b", jobs.Failed)}, true, "met: job a waits for input"},
		{"all", []jobs.Record{ended("a", jobs.Cancelled), ended("b", jobs.Failed)}, true, "met: all have ended"},
	} {
		outcomes := make([]Outcome, len(tt.records))
		for i, record := range tt.records {
			outcomes[i].record = record
		}
		if got := endsText(outcomes, tt.every); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
