package report

import (
	"testing"

	"asyncrepl/internal/output"
)

// One stream is cut back to inside a sequence of the other, and then both end inside a sequence
// after every write, for ever.
func TestCutNeverSplitsASequenceOfAnyStream(t *testing.T) {
	log := output.NewStore(output.Config{Cap: 1 << 20, Dir: func() (string, error) { return t.TempDir(), nil }}).NewLog("x")
	defer log.Discard()
	for _, piece := range []string{"out ", "err \x1b[1;", "out \x1b[3", "31mred"} {
		stream := output.Stdout
		if piece[0] != 'o' {
			stream = output.Stderr
		}
		log.Write(stream, []byte(piece))
	}
	x := newExcerpt(log, false, Window{}, 45_000)
	if x.next != int64(len("out err ")) || x.text != [sections]string{stdout: "out ", stderr: "err "} {
		t.Errorf("shown up to %d: %q", x.next, x.text)
	}
	log.Write(output.Stdout, []byte("2mgreen"))
	x = newExcerpt(log, false, Window{From: x.next}, 45_000)
	if x.next != log.Stat().End || x.text != [sections]string{stdout: "out green", stderr: "red"} {
		t.Errorf("shown up to %d of %d: %q", x.next, log.Stat().End, x.text)
	}
	const longest = 4 << 10 // bytes of a sequence that is waited for
	for range 2 * longest / len("m\x1b[3") {
		log.Write(output.Stdout, []byte("m\x1b[3"))
		log.Write(output.Stderr, []byte("m\x1b[3"))
	}
	if end := log.Stat().End; newExcerpt(log, false, Window{}, 45_000).next < end-longest {
		t.Error("output that always ends inside a sequence is withheld for ever")
	}
}
