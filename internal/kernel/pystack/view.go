package pystack

import (
	"encoding/binary"
	"errors"
)

// A span is a range of the other process's memory and a buffer for its bytes.
type span struct {
	addr uint64
	into []byte
}

// A memory reads the memory of a process. read fills all spans. If a span is not mapped, the error
// is errTorn; any other error means that this process can't be read at all.
type memory interface{ read(spans []span) error }

// errTorn means that the bytes that were read make no sense: the memory changed meanwhile, or the
// program has forged it.
var errTorn = errors.New("torn")

const (
	pageSize   = 4096
	cacheLine  = 64
	chainPages = 768     // the most pages of a view while the frames are read
	pagesMax   = 2048    // the most pages of a view
	bytesMax   = 1 << 20 // the most bytes of one object
	largeMax   = 8 << 20 // the most bytes of all large objects of a view
)

// A view is the memory of a process as it was when its pages were first read. Python keeps objects
// that are used together close together, so one system call reads many of them, all at one moment.
type view struct {
	mem   memory
	pages map[uint64]*page
	order []*page // the pages in the order in which they are read
	twice []*page // those that have two copies
	limit int     // the most pages that the view takes
	large int     // the bytes of the objects larger than a page that were read
	err   error   // an error of mem other than errTorn
}

// A page is an aligned part of memory. Go aligns an array of its size to a cache line, and every
// reading begins and ends at a cache line. Otherwise a word that the program
// changes can be torn: some of its bytes are old and some are new. The kernel copies with "rep
// movsb", which copies byte by byte if source and destination are not aligned alike. On an AMD EPYC
// (family 25) up to 0.27 % of such readings were torn, and none of 11 million aligned ones.
type page struct {
	bytes    *[pageSize]byte
	second   *[pageSize]byte // a copy that was read after bytes; nil: none was
	addr     uint64
	from, to int // the range of bytes that was used, in complete cache lines
}

func newView(mem memory) *view {
	return &view{mem: mem, pages: make(map[uint64]*page), limit: chainPages}
}

// again reads the used part of each page again, twice in one system call, and reports whether it
// could. The view shows the first copy; swap shows the second one, which has only that part.
func (v *view) again() bool {
	spans := make([]span, 2*len(v.order))
	for i, p := range v.order {
		if p.second == nil {
			p.second = new([pageSize]byte)
		}
		spans[i] = span{p.addr + uint64(p.from), p.bytes[p.from:p.to]}
		spans[len(v.order)+i] = span{p.addr + uint64(p.from), p.second[p.from:p.to]}
	}
	v.twice = v.order
	return v.read(spans...)
}

// swap exchanges the two copies that again has read.
func (v *view) swap() {
	for _, p := range v.twice {
		p.bytes, p.second = p.second, p.bytes
	}
}

// full reports whether the view takes no further page.
func (v *view) full() bool { return len(v.order) >= v.limit }

// page returns n bytes at offset from of the page that begins at an address. It returns nil if the
// page can't be read or the view is full.
func (v *view) page(at uint64, from, n int) []byte {
	p, ok := v.pages[at]
	if !ok {
		if v.full() {
			return nil
		}
		p = &page{addr: at, from: pageSize, bytes: new([pageSize]byte)}
		if !v.read(span{at, p.bytes[:]}) {
			return nil
		}
		v.pages[at] = p
		v.order = append(v.order, p)
	}
	p.from, p.to = min(p.from, from&^(cacheLine-1)), max(p.to, (from+n+cacheLine-1)&^(cacheLine-1))
	return p.bytes[from:][:n]
}

// read fills spans, and reports whether it could.
func (v *view) read(spans ...span) bool {
	err := v.mem.read(spans)
	if err != nil && !errors.Is(err, errTorn) {
		v.err = err
	}
	return err == nil
}

// failed returns the error of a reading that has failed: the error of mem or, without one, errTorn.
func (v *view) failed() error {
	if v.err != nil {
		return v.err
	}
	return errTorn
}

// bytes returns n bytes of memory, or nil if they can't be read. The caller must not change them.
func (v *view) bytes(addr uint64, n int) []byte {
	if n <= 0 || n > bytesMax || addr < pageSize || addr+uint64(n) < addr {
		return nil
	}
	at := addr &^ (pageSize - 1)
	from := int(addr - at)
	switch {
	case from+n <= pageSize:
		return v.page(at, from, n)
	case n > 2*pageSize: // the view does not keep these pages: nothing else will use them
		if v.large += n; v.large > largeMax {
			return nil
		}
		if b := make([]byte, n); v.read(span{addr, b}) {
			return b
		}
		return nil
	}
	b := make([]byte, 0, n)
	for len(b) < n {
		part := v.page(at, from, min(pageSize-from, n-len(b)))
		if part == nil {
			return nil
		}
		b = append(b, part...)
		at, from = at+pageSize, 0
	}
	return b
}

// word returns the word at an address and reports whether it could be read.
func (v *view) word(addr uint64) (uint64, bool) {
	if b := v.bytes(addr, 8); b != nil {
		return wordAt(b, 0), true
	}
	return 0, false
}

func wordAt(b []byte, at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }

func int32At(b []byte, at int) int { return int(int32(binary.LittleEndian.Uint32(b[at:]))) }
