package jobs

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/agnivade/levenshtein"
	"github.com/oklog/ulid/v2"
)

// Errors of a job and of the registry that a caller can act on.
var (
	ErrEnded      = errors.New("job has ended")
	ErrNotReading = errors.New("job is not reading input")
	ErrNoTerminal = errors.New("the command was started on pipes, without a terminal")
	ErrShutdown   = errors.New("server is shutting down")
)

// A TooManyError means that no job can be started, because as many are queued as may be.
type TooManyError struct {
	Limit   int
	Running []Record // the jobs that run: those that wait for input first, then the oldest
}

func (e *TooManyError) Error() string {
	return fmt.Sprintf("%d jobs are queued, the most allowed", e.Limit)
}

// A TakenError means that no job can be started under an id, because one was.
type TakenError struct {
	ID  string
	Job *Job // nil: it is no longer kept
}

func (e *TakenError) Error() string {
	return "there is a job with the id " + e.ID + " already: a job is started once"
}

// A NotFoundError means that there is no job with that id.
type NotFoundError struct {
	ID        string
	Nearest   []Record // the jobs with the most similar ids, at most three
	Forgotten bool     // there was such a job; it is no longer kept
	Earlier   bool     // the id is older than the server
}

func (e *NotFoundError) Error() string {
	if e.Forgotten {
		return "no such job: " + e.ID + " (forgotten: too old, or too many came after it)"
	}
	return "no such job: " + e.ID
}

// An AmbiguousError means that the ids of several jobs have the given prefix.
type AmbiguousError struct {
	Prefix string
	Jobs   []Record // newest first
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("the ids of %d jobs begin with %s", len(e.Jobs), e.Prefix)
}

// nearest returns the jobs whose ids are most like id, the newest first among equals: of this
// registry and of past ones. A client's id can have a few letters changed, be cut off, or be in small
// letters. The caller holds r.mu.
func (r *Registry) nearest(id string, past []Record) []Record {
	type candidate struct {
		Record
		distance int
	}
	id = canonical(id[:min(len(id), 2*ulid.EncodedSize)]) // anything longer is like no id
	var all []candidate
	for _, j := range slices.Backward(r.order) {
		all = append(all, candidate{j.Record(), levenshtein.ComputeDistance(id, j.ID())})
	}
	for _, record := range past {
		all = append(all, candidate{record, levenshtein.ComputeDistance(id, record.ID)})
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(a.distance, b.distance) })
	var near []Record
	for _, c := range all[:min(3, len(all))] {
		near = append(near, c.Record)
	}
	return near
}
