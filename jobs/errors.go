package jobs

import (
	"cmp"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/oklog/ulid/v2"
)

// A NotFoundError says that a tenant has no job of that id. A job of another
// tenant is not found, and not named either.
type NotFoundError struct {
	ID        string
	Nearest   []Info // those with the most similar ids, at most three
	Forgotten bool   // there was one, which is kept no longer
}

func (e *NotFoundError) Error() string {
	if e.Forgotten {
		return "no such job: " + e.ID + " (forgotten: too old, or too many came after it)"
	}
	return "no such job: " + e.ID
}

// nearest returns the jobs of the tenant whose ids are most like id, the newest
// first among equals. An id comes back wrong with few letters changed, cut off,
// or in small letters. The caller holds r.mu.
func (r *Registry) nearest(tenant, id string) []Info {
	type candidate struct {
		*Job
		distance int
	}
	id = strings.ToUpper(id[:min(len(id), 2*ulid.EncodedSize)]) // what is longer is like none
	var all []candidate
	for _, j := range slices.Backward(r.order) {
		if j.info.Tenant == tenant {
			all = append(all, candidate{j, levenshtein.ComputeDistance(id, j.ID())})
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(a.distance, b.distance) })
	var near []Info
	for _, c := range all[:min(3, len(all))] {
		near = append(near, c.Info())
	}
	return near
}
