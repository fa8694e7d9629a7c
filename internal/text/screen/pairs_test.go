package screen

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/racetest"
)

// What is left out before drawing has no part in the screen: of one program after another, and of a
// log between them, Draw shows what a terminal shows that has seen all of it.
func TestDrawLeavesOutOnlyWhatIsGone(t *testing.T) {
	racetest.Skip(t)
	files := must.Get(filepath.Glob("testdata/*.bin"))(t)
	log := strings.Repeat("a line of \x1b[31mcolour\x1b[m\r\n", 60)
	for i, first := range files {
		for j, second := range files {
			if (i+j)%3 > 0 {
				continue
			}
			var b []byte
			for _, file := range []string{first, second} {
				written := must.Get(os.ReadFile(file))(t)
				b = append(append(b, written...), log...)
			}
			b = b[:len(b)-len(log)/(i%3+1)]
			p, err := Draw(b, true, Size{24, 80})
			if err != nil || !p.Whole {
				t.Fatalf("whole: %t, %v", p.Whole, err)
			}
			s := New(24, 80)
			for part := range slices.Chunk(b, 1<<10) { // each has its time
				s.Write(part)
			}
			all := Picture{Rows: s.Rows(), Hidden: s.hidden}
			all.Row, all.Col, _ = s.Cursor()
			if diff := cmp.Diff(described(all), described(p)); diff != "" {
				t.Errorf("%s, then %s: -all +drawn:\n%s", first, second, diff)
			}
		}
	}
}
