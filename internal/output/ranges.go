package output

import (
	"math"
	"slices"
	"sort"
)

// ranges is a set of bytes: ascending ranges that don't touch each other.
type ranges []Range

// add puts r into the set and returns how many of its bytes were not in it.
func (rs *ranges) add(r Range) (more int64) {
	if r.To <= r.From {
		return 0
	}
	more, all := r.To-r.From, r
	i := sort.Search(len(*rs), func(i int) bool { return (*rs)[i].To >= r.From })
	j := i
	for ; j < len(*rs) && (*rs)[j].From <= r.To; j++ {
		more -= (*rs)[j].overlap(r)
		all = Range{min(all.From, (*rs)[j].From), max(all.To, (*rs)[j].To)}
	}
	*rs = slices.Replace(*rs, i, j, all)
	return more
}

// overlap returns how many bytes both ranges have.
func (r Range) overlap(o Range) int64 { return max(0, min(r.To, o.To)-max(r.From, o.From)) }

// size returns how many bytes are in the set.
func (rs ranges) size() (sum int64) {
	for _, r := range rs {
		sum += r.To - r.From
	}
	return sum
}

// free returns the first byte from n on that is not in the set, and the first one after it that is.
func (rs ranges) free(n int64) (from, to int64) {
	i := sort.Search(len(rs), func(i int) bool { return rs[i].To > n })
	if i < len(rs) && rs[i].From <= n {
		n = rs[i].To
		i++
	}
	if i < len(rs) {
		return n, rs[i].From
	}
	return n, math.MaxInt64
}
