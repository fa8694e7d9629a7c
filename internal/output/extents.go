package output

import (
	"slices"
	"sort"
)

// An extent is the segments from from up to, but not including, to.
type extent struct{ from, to int64 }

// extents is a set of segments: ascending extents that don't touch each other.
type extents []extent

// add puts segment n into the set.
func (e *extents) add(n int64) {
	s := *e
	// i is the first extent that contains n, ends at n or comes after it.
	i := s.search(n - 1)
	switch {
	case i < len(s) && s[i].from <= n && n < s[i].to:
		return
	case i < len(s) && s[i].to == n:
		s[i].to++
		if i+1 < len(s) && s[i+1].from == n+1 {
			s[i].to = s[i+1].to
			s = slices.Delete(s, i+1, i+2)
		}
	case i < len(s) && s[i].from == n+1:
		s[i].from--
	default:
		s = slices.Insert(s, i, extent{n, n + 1})
	}
	*e = s
}

// search returns the index of the first extent that ends after segment n.
func (e extents) search(n int64) int {
	return sort.Search(len(e), func(i int) bool { return e[i].to > n })
}

// kept returns the first segment from n on that is not in the set, and the first one after it that
// is in the set, or none.
func (e extents) kept(n int64) (from, to int64) {
	i := e.search(n)
	if i < len(e) && e[i].from <= n {
		n = e[i].to
		i++
	}
	if i < len(e) {
		return n, e[i].from
	}
	return n, none
}

// has reports whether segment n is in the set.
func (e extents) has(n int64) bool {
	i := e.search(n)
	return i < len(e) && e[i].from <= n
}
