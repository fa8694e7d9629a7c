//go:build unix

package hub

import (
	"fmt"
	"testing"

	"asyncrepl/internal/page"
)

// Twelve tabs see that one of a thousand jobs has changed.
func BenchmarkTabsSeeAChange(b *testing.B) {
	h := New(nil, func(string) {})
	s := &server{}
	var briefs []page.Brief
	for i := range 1000 {
		briefs = append(briefs, page.Brief{ID: fmt.Sprintf("%026d", i), Title: "job", Status: "running"})
	}
	h.take(s, page.Update{Jobs: briefs, First: true, Complete: true})
	var tabs []*tab
	for range 12 {
		t := &tab{hub: h, shown: make(map[string]*page.Brief), seen: -1}
		t.compare()
		tabs = append(tabs, t)
	}
	for i := 0; b.Loop(); i++ {
		h.take(s, page.Update{Jobs: []page.Brief{briefs[i%1000]}})
		for _, t := range tabs {
			if list, removed := t.compare(); len(list) != 1 || removed != nil {
				b.Fatalf("a tab is sent %d jobs, and %d are removed", len(list), len(removed))
			}
		}
	}
}
