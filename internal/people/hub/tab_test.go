//go:build unix

package hub

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"asyncrepl/internal/page"
)

// A tab that sees the changes now and then shows what one shows that compares all jobs, also if it has missed more
// changes than are remembered.
func TestTabsSeeEachChange(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	h, s := New(nil, func(string) {}), &server{}
	id := func() string { return fmt.Sprintf("%026d", random.IntN(50)) }
	newTab := func() *tab { return &tab{hub: h, shown: make(map[string]*page.Brief), seen: -1} }
	shows := make(map[*tab]map[string]string) // what each tab was sent
	tabs := []*tab{newTab(), newTab(), newTab()}
	for _, tab := range tabs {
		shows[tab] = make(map[string]string)
	}
	for i := range 5 * maxChanges {
		if random.IntN(4) == 0 {
			h.take(s, page.Update{Removed: []string{id()}})
		} else {
			h.take(s, page.Update{Jobs: []page.Brief{{ID: id(), Title: fmt.Sprint(i)}}})
		}
		for n, tab := range tabs {
			if random.IntN(10*(1+n*n*n*n*1000)) != 0 { // the last one misses more than are remembered
				continue
			}
			list, removed := tab.compare()
			for _, b := range list {
				shows[tab][b.ID] = b.Title
			}
			for _, id := range removed {
				delete(shows[tab], id)
			}
			if len(shows[tab]) != len(h.jobs) {
				t.Fatalf("tab %d shows %d of %d jobs", n, len(shows[tab]), len(h.jobs))
			}
			for id, j := range h.jobs {
				if shows[tab][id] != j.brief.Title {
					t.Fatalf("tab %d shows job %s as %q, and not as %q", n, id, shows[tab][id], j.brief.Title)
				}
			}
		}
	}
	if h.dropped == 0 || len(h.changes) > maxChanges {
		t.Errorf("%d changes are remembered, and %d were dropped", len(h.changes), h.dropped)
	}
}
