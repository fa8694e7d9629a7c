package report

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/test/racetest"
	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
	"asyncrepl/jobs/display"
	"asyncrepl/jobs/jobstest"
)

// show adds a picture of at least that many bytes, which begin with its number.
func show(p *jobs.Port, n, size int) {
	b := append(fmt.Appendf(nil, "picture %d;", n), make([]byte, size)...)
	p.Display(jobs.Display{Title: "figure", Picture: true, Forms: []jobs.Form{{MIME: "image/png"}}}, [][]byte{b}, lineOf(p))
}

func lineOf(p *jobs.Port) func(n int) string {
	return func(n int) string { return fmt.Sprintf("[figure %d, %s]", n, display.URI(p.ID(), n)) }
}

// blocks returns the numbers of the pictures of a reply.
func blocks(t *testing.T, r *Reply) (numbers []int) {
	t.Helper()
	for _, b := range r.Blocks {
		data, err := b.Read()
		if err != nil || len(data) != b.Size {
			t.Fatalf("a block of %d bytes: %d, %v", b.Size, len(data), err)
		}
		var n int
		if _, err := fmt.Sscanf(string(data), "picture %d;", &n); err != nil || b.MIMEType != "image/png" {
			t.Fatalf("a block of type %s: %.20q", b.MIMEType, data)
		}
		numbers = append(numbers, n)
	}
	return numbers
}

// lines returns the numbers of the display lines in a text, whoever wrote them.
func lines(text string) (numbers []int) {
	for line := range strings.Lines(text) {
		var n int
		if _, err := fmt.Sscanf(line, "[figure %d, job://", &n); err == nil {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// The pictures of a reply are those of the lines that it shows, in their order; a line that the
// program has printed is none.
func TestReplyCarriesThePicturesOfItsLines(t *testing.T) {
	var rp Reporter
	j := ended(t, script{result: "<Figure>", write: func(p *jobs.Port) {
		out(p, "before\n")
		show(p, 1, 0)
		out(p, "between\n")
		errs(p, "warning\n")
		out(p, "no line yet")
		show(p, 2, 0)
		out(p, lineOf(p)(3)+"\n")
		p.Display(jobs.Display{Forms: []jobs.Form{{MIME: "text/html"}}}, [][]byte{[]byte("<p>")}, lineOf(p))
		out(p, "after\n")
	}})
	r := rp.Job(j, Window{MaxChars: 16_000})
	_, body, _ := strings.Cut(r.String(), "\n\n")
	uri := display.URI(j.ID(), 1)
	uri = uri[:len(uri)-1]
	want := "--- STDOUT ---\nbefore\n[figure 1, " + uri + "1]\nbetween\nno line yet\n[figure 2, " + uri + "2]\n[figure 3, " + uri + "3]\n[figure 3, " + uri + "3]\nafter\n" +
		"--- STDERR ---\nwarning\n--- RESULT ---\n<Figure>\n"
	if d := cmp.Diff(want, body); d != "" {
		t.Error(d)
	}
	if got := blocks(t, r); !cmp.Equal(got, []int{1, 2}) {
		t.Errorf("pictures %v", got)
	}
	all := j.Displays()
	for _, test := range []struct {
		from int64
		want []int
	}{
		{all[0].Line.From, []int{1, 2}},
		{all[0].Line.To - 1, []int{1, 2}}, // its end is shown
		{all[0].Line.To, []int{2}},
		{all[1].Line.To, nil},
		{r.endOf(t), nil},
	} {
		for _, part := range []Part{Ends, Newest, Forward} {
			r := rp.Job(j, Window{From: test.from, Part: part, MaxChars: 16_000})
			if got := blocks(t, r); !cmp.Equal(got, test.want) {
				t.Errorf("from %d, part %d: pictures %v, want %v", test.from, part, got, test.want)
			}
		}
	}
}

// endOf returns the cursor of a reply.
func (r *Reply) endOf(t *testing.T) int64 { return number(t, field(r, "Cursor")) }

// Whatever a reply leaves out, its pictures are those of the lines that it shows. Pages carry each
// picture once.
func TestPicturesGoWithTheirLines(t *testing.T) {
	racetest.Skip(t)
	var rp Reporter
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range rounds(50) {
		n := 0
		j := ended(t, script{write: func(p *jobs.Port) {
			for range 300 {
				switch random.IntN(12) {
				case 0:
					if n++; n <= maxBlocks {
						show(p, n, 0)
					}
				case 1:
					errs(p, "a warning\n")
				default:
					out(p, strings.Repeat("x", random.IntN(200))+"\n")
				}
			}
		}})
		n = min(n, maxBlocks)
		for range 10 {
			for _, part := range []Part{Ends, Forward} {
				from := int64(0)
				if all := j.Displays(); n > 0 {
					from = all[random.IntN(n)].Line.From
				}
				r := rp.Job(j, Window{From: from, Part: part, MaxChars: 2500 + random.IntN(10_000)}) // room for whole lines
				if got, want := blocks(t, r), lines(r.String()); !cmp.Equal(got, want) {
					t.Fatalf("part %d: pictures %v in\n%s", part, got, r)
				}
			}
		}
		var paged []int
		for cursor := int64(0); cursor < j.Log().Stat().End; {
			r := rp.Job(j, Window{From: cursor, Part: Forward, MaxChars: 1 + random.IntN(1000)})
			paged = append(paged, blocks(t, r)...)
			cursor = r.endOf(t)
		}
		for i := range n {
			if len(paged) != n || paged[i] != i+1 {
				t.Fatalf("of %d pictures, the pages have %v", n, paged)
			}
		}
	}
}

func TestRunningJobShowsItsNewestPictures(t *testing.T) {
	var rp Reporter
	j := jobstest.Start(t, jobstest.Registry(t), jobs.Spec{Kind: jobs.Python}, script{hangs: true, write: func(p *jobs.Port) {
		show(p, 1, 0)
		flood(p, 1000)
		show(p, 2, 0)
	}})
	jobstest.Prints(t, j, "[figure 2, ")
	r := rp.Job(j, Window{MaxChars: 16_000, Part: Newest, NewestMax: 2000})
	if got := blocks(t, r); !cmp.Equal(got, []int{2}) {
		t.Errorf("pictures %v in\n%s", got, r)
	}
}

// What a reply can't carry is counted, and the cursor leads to it.
func TestReplyBoundsItsPictures(t *testing.T) {
	var rp Reporter
	for name, test := range map[string]struct {
		pictures, size int
		pages          [][]int
	}{
		"bytes":  {9, 1<<20 - 100, [][]int{{1, 2, 3, 4}, {5, 6, 7, 8}, {9}}},
		"number": {12, 0, [][]int{{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, {11, 12}}},
	} {
		t.Run(name, func(t *testing.T) {
			j := ended(t, script{write: func(p *jobs.Port) {
				for i := range test.pictures {
					show(p, i+1, test.size)
				}
			}})
			from, left := int64(0), test.pictures
			for _, want := range test.pages {
				r := rp.Job(j, Window{From: from, MaxChars: 16_000})
				if got := blocks(t, r); !cmp.Equal(got, want) {
					t.Fatalf("from %d: pictures %v, want %v", from, got, want)
				}
				left -= len(want)
				more := ""
				if left > 0 {
					next := want[len(want)-1]
					from = j.Displays()[next].Line.From
					more = fmt.Sprintf("%d, from cursor %d on; the first is %s", left, from, display.URI(j.ID(), next+1))
				}
				if got := field(r, "More images"); got != more {
					t.Errorf("More images: %q, want %q", got, more)
				}
			}
		})
	}
}

// Pictures beyond those that a model sees are named, so that a program can read them.
func TestReplyNamesPicturesThatAreOnlyResources(t *testing.T) {
	var rp Reporter
	for name, test := range map[string]struct {
		seen, unseen int
		want         string // after the URI of the first display
	}{
		"one":  {10, 1, "1 as resources only: URI11"},
		"many": {10, 90, "90 as resources only: URI11 to 100"},
		"both": {11, 3, "1, from cursor CURSOR on; the first is URI11; 3 as resources only: URI12 to 14"},
	} {
		t.Run(name, func(t *testing.T) {
			j := ended(t, script{write: func(p *jobs.Port) {
				for i := range test.seen {
					show(p, i+1, 0)
				}
				for range test.unseen {
					p.Display(jobs.Display{Picture: true, Unseen: true, Forms: []jobs.Form{{MIME: "image/png"}}}, [][]byte{nil}, lineOf(p))
				}
			}})
			r := rp.Job(j, Window{MaxChars: 16_000})
			if n := len(r.Blocks); n != 10 {
				t.Errorf("%d pictures", n)
			}
			want := strings.NewReplacer("URI", strings.TrimSuffix(display.URI(j.ID(), 1), "1"), "CURSOR", fmt.Sprint(j.Displays()[10].Line.From)).Replace(test.want)
			if got := field(r, "More images"); got != want {
				t.Errorf("More images: %q, want %q", got, want)
			}
		})
	}
}

// A live plot: views and pages show what the job has not replaced, from whatever cursor, and say how
// much that is not. The bytes are there in the raw view.
func TestReplyShowsWhatWasNotReplaced(t *testing.T) {
	var rp Reporter
	j := ended(t, script{write: func(p *jobs.Port) {
		for n := range 20 {
			p.Clear(true)
			errs(p, fmt.Sprintf("\r%d %%", n))
			out(p, fmt.Sprintf("epoch %d", n))
			show(p, n+1, 0)
		}
		p.Clear(true)
	}})
	cleared, end := j.Cleared(), j.Log().Stat().End
	uri := display.URI(j.ID(), 20)
	const about = ": the job has replaced them; view=raw shows them"
	for _, part := range []Part{Ends, Newest, Forward} {
		for from, want := range map[int64]string{
			0:           fmt.Sprintf("%s bytes (cursor 0..%d)%s", view.Count(int(cleared)), cleared, about),
			cleared - 1: fmt.Sprintf("1 byte (cursor %d..%d)%s", cleared-1, cleared, about),
			cleared:     "",
		} {
			r := rp.Job(j, Window{From: from, Part: part, MaxChars: 16_000})
			_, body, _ := strings.Cut(r.String(), "\n\n")
			if got := field(r, "Cleared"); got != want || field(r, "Omitted") != "" || r.endOf(t) != end {
				t.Errorf("from %d: Cleared: %q, want %q\n%s", from, got, want, r)
			}
			if want := "--- STDOUT ---\nepoch 19\n[figure 20, " + uri + "]\n--- STDERR ---\n19 %\n"; body != want || !cmp.Equal(blocks(t, r), []int{20}) {
				t.Errorf("from %d: pictures %v, output\n%s", from, blocks(t, r), body)
			}
		}
	}
	r := rp.Job(j, Window{View: RawView, MaxChars: 16_000})
	if text := r.String(); field(r, "Cleared") != "" || !strings.Contains(text, "epoch 0") || !strings.Contains(text, `\r0 %`) || len(r.Blocks) != 1 {
		t.Errorf("raw: %s", text)
	}
}

func TestReplyAboutAClearedJobIsEmpty(t *testing.T) {
	var rp Reporter
	j := ended(t, script{write: func(p *jobs.Port) {
		show(p, 1, 0)
		p.Clear(false)
	}})
	r := rp.Job(j, Window{MaxChars: 16_000})
	if text := r.String(); strings.Contains(text, "---") || len(r.Blocks) != 0 || field(r, "Cleared") == "" {
		t.Error(text)
	}
}
