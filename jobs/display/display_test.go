package display_test

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"strings"
	"testing"

	"asyncrepl/internal/output"
	"asyncrepl/internal/test/racetest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/display"
	"asyncrepl/jobs/jobstest"
)

type runFunc func(p *jobs.Port)

func (f runFunc) Run(_ context.Context, p *jobs.Port) jobs.Outcome {
	p.Begin()
	f(p)
	return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Returned}}
}

// shown returns an ended job whose displays f has added, and what the sink says at its end.
func shown(t *testing.T, f func(s *display.Sink)) (*jobs.Job, string) {
	t.Helper()
	var note string
	j := jobstest.Start(t, jobstest.Registry(t), jobs.Spec{}, runFunc(func(p *jobs.Port) {
		s := display.NewSink(p)
		f(s)
		note = s.Note()
	}))
	jobstest.End(t, j)
	return j, note
}

// flat returns a JPEG without height or without width, as its header says.
func flat(t *testing.T, height, width byte) []byte {
	t.Helper()
	b := encoded(t, "jpeg", 10, 10, 0)
	frame := bytes.Index(b, []byte{0xff, 0xc0}) // its length and precision follow, then the height and the width
	copy(b[frame+5:], []byte{0, height, 0, width})
	return b
}

// A picture of one colour, with bytes after its end to make it longer.
func encoded(t *testing.T, kind string, width, height, size int) []byte {
	t.Helper()
	var b bytes.Buffer
	im := image.NewGray(image.Rect(0, 0, width, height))
	var err error
	switch kind {
	case "png":
		err = png.Encode(&b, im)
	case "jpeg":
		err = jpeg.Encode(&b, im, nil)
	case "gif":
		err = gif.Encode(&b, im, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return append(b.Bytes(), make([]byte, max(0, size-b.Len()))...)
}

func TestOnlyAGoodPictureIsForTheModel(t *testing.T) {
	racetest.Skip(t)
	for name, test := range map[string]struct {
		mime string
		data []byte
		want bool
		flaw string
	}{
		"PNG":             {"image/png", encoded(t, "png", 640, 480, 0), true, ""},
		"JPEG":            {"image/jpeg", encoded(t, "jpeg", 640, 480, 0), true, ""},
		"largest":         {"image/png", encoded(t, "png", 1568, 1568, 1<<20), true, ""},
		"wide":            {"image/png", encoded(t, "png", 1569, 1, 0), false, "more than 1568 pixels a side"},
		"high":            {"image/jpeg", encoded(t, "jpeg", 1, 1569, 0), false, "more than 1568 pixels a side"},
		"long":            {"image/png", encoded(t, "png", 10, 10, 1<<20+1), false, "more than 1 MiB"},
		"PNG as JPEG":     {"image/jpeg", encoded(t, "png", 10, 10, 0), false, "it is no JPEG"},
		"JPEG as PNG":     {"image/png", encoded(t, "jpeg", 10, 10, 0), false, "it is no PNG"},
		"only its magic":  {"image/png", []byte("\x89PNG\r\n\x1a\n"), false, "it is no PNG"},
		"no height":       {"image/jpeg", flat(t, 0, 10), false, "it is no JPEG"},
		"no width":        {"image/jpeg", flat(t, 10, 0), false, "it is no JPEG"},
		"empty":           {"image/png", nil, false, "it is no PNG"},
		"GIF":             {"image/gif", encoded(t, "gif", 10, 10, 0), false, ""},
		"PNG as document": {"text/html", encoded(t, "png", 10, 10, 0), false, ""},
		"SVG":             {"image/svg+xml", []byte("<svg/>"), false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			j, note := shown(t, func(s *display.Sink) {
				s.Add("figure 1", "as said", []display.Form{{MIME: test.mime, Data: test.data}})
			})
			all := j.Displays()
			if len(all) != 1 || note != "" {
				t.Fatalf("%d displays, note %q", len(all), note)
			}
			if all[0].Picture != test.want {
				t.Errorf("for a model: %v", all[0].Picture)
			}
			flaw := test.flaw
			if flaw != "" {
				flaw = ", not shown: " + flaw
			}
			if want := fmt.Sprintf("[figure 1: as said%s, job://%s/display/1]\n", flaw, j.ID()); jobstest.Output(j) != want {
				t.Errorf("output %q, want %q", jobstest.Output(j), want)
			}
			if got, err := j.Data(all[0].Forms[0]); err != nil || !bytes.Equal(got, test.data) {
				t.Errorf("%d bytes, want %d: %v", len(got), len(test.data), err)
			}
		})
	}
}

// The longest type, and one with a space and a tilde, are types.
func TestOddTypesAreKept(t *testing.T) {
	for _, mime := range []string{"text/" + strings.Repeat("x", 95), `text/html; x=" ~"`} {
		j, note := shown(t, func(s *display.Sink) { s.Add("x", "", []display.Form{{MIME: mime}}) })
		if all := j.Displays(); note != "" || len(all) != 1 || all[0].Forms[0].MIME != mime {
			t.Errorf("%s: %+v, note %q", mime, all, note)
		}
	}
}

func TestDisplayIsOneLineWhateverItsTitle(t *testing.T) {
	for _, test := range [][3]string{
		{"figure 1", "PNG 640x480", "figure 1: PNG 640x480"},
		{"", " ", "display"},
		{"a\nb\x1b[2J", "c\r\xff", `a\nb\x1b[2J: c\r` + "\uFFFD"},
		{strings.Repeat("x", 1000), strings.Repeat("y", 1000), strings.Repeat("x", 99) + "…: " + strings.Repeat("y", 99) + "…"},
	} {
		j, _ := shown(t, func(s *display.Sink) {
			s.Add(test[0], test[1], []display.Form{{MIME: "text/html"}})
		})
		if got, want := jobstest.Stream(j, output.Display), "["+test[2]+", job://"+j.ID()+"/display/1]\n"; got != want {
			t.Errorf("line %q, want %q", got, want)
		}
	}
}

func TestMalformedDisplaysAreCounted(t *testing.T) {
	html := display.Form{MIME: "text/html", Data: []byte("<p>")}
	for name, forms := range map[string][]display.Form{
		"no form":     nil,
		"three forms": {html, html, html},
		"too long":    {{MIME: "text/html", Data: make([]byte, display.MaxForm+1)}},
		"no type":     {{Data: []byte("x")}},
		"odd type":    {{MIME: "text/html\nX: y"}},
		"half a type": {html, {MIME: "text"}},
		"long type":   {{MIME: "text/" + strings.Repeat("x", 96)}},
		"NUL":         {{MIME: "text/html; x=\"\x00\""}},
		"not ASCII":   {{MIME: "text/html; x=\"é\""}},
	} {
		j, note := shown(t, func(s *display.Sink) { s.Add("x", "", forms) })
		if len(j.Displays()) != 0 || jobstest.Output(j) != "" || !strings.HasPrefix(note, "1 more display") {
			t.Errorf("%s: %d displays, output %q, note %q", name, len(j.Displays()), jobstest.Output(j), note)
		}
	}
}

func TestDisplaysOfAJobAreBounded(t *testing.T) {
	one := func(mime string, data []byte) []display.Form { return []display.Form{{MIME: mime, Data: data}} }
	big := encoded(t, "png", 10, 10, 1<<20)
	dot := encoded(t, "png", 1, 1, 0)
	full := make([]byte, display.MaxForm)
	for name, test := range map[string]struct {
		add  func(s *display.Sink)
		n    int // that are tried
		want int // that are kept
		seen int // by a model
	}{
		"pictures":          {func(s *display.Sink) { s.Add("", "", one("image/png", dot)) }, 1000, 100, 10},
		"bytes of pictures": {func(s *display.Sink) { s.Add("", "", one("image/png", big)) }, 70, 64, 8},
		"full sizes":        {func(s *display.Sink) { s.Add("", "", append(one("image/png", big), one("image/png", full)...)) }, 10, 7, 7},
		"documents":         {func(s *display.Sink) { s.Add("", "", one("text/html", nil)) }, 200, 100, 0},
		"long documents":    {func(s *display.Sink) { s.Add("", "", one("text/html", full)) }, 20, 8, 0},
		"left out before":   {func(s *display.Sink) { s.Leave(1); s.Leave(-5) }, 3, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			j, note := shown(t, func(s *display.Sink) {
				for range test.n {
					test.add(s)
				}
			})
			if got := len(j.Displays()); got != test.want {
				t.Errorf("%d displays, want %d", got, test.want)
			}
			seen := 0
			for i, d := range j.Displays() {
				if d.Picture && !d.Unseen {
					seen++
				}
				if seen > i+1 || d.Unseen && seen < test.seen {
					t.Errorf("%d pictures up to display %d are seen", seen, i+1)
				}
			}
			if seen != test.seen {
				t.Errorf("a model sees %d, want %d", seen, test.seen)
			}
			if left, _, _ := strings.Cut(note, " "); strings.ReplaceAll(left, ",", "") != fmt.Sprint(test.n-test.want) {
				t.Errorf("note %q, want %d", note, test.n-test.want)
			}
		})
	}
}

// A live plot: each picture replaces the one before, so that a model sees the last one, and nothing
// is left out. What was left out of output that is replaced is no longer counted.
func TestReplacedDisplaysTakeNoPlace(t *testing.T) {
	one := []display.Form{{MIME: "image/png", Data: encoded(t, "png", 10, 10, 0)}}
	for name, test := range map[string]struct {
		show  func(s *display.Sink)
		want  int // displays at the end
		first int // the number of the first of them
		left  string
	}{
		"with wait": {func(s *display.Sink) {
			for range 200 {
				s.Clear(true)
				s.Add("", "", one)
			}
		}, 1, 200, ""},
		"wait after each": {func(s *display.Sink) {
			for range 200 {
				s.Add("", "", one)
				s.Clear(true)
			}
		}, 1, 200, ""},
		"at once": {func(s *display.Sink) {
			for range 200 {
				s.Clear(false)
				s.Add("", "", one)
			}
		}, 1, 200, ""},
		"nothing follows": {func(s *display.Sink) { s.Add("", "", one); s.Clear(false) }, 0, 0, ""},
		"too many before": {func(s *display.Sink) {
			s.Add("", "", one)
			s.Leave(5)
			s.Clear(true)
			s.Add("", "", one)
		}, 1, 2, ""},
		"too many, and the clear waits": {func(s *display.Sink) {
			s.Add("", "", one)
			s.Leave(5)
			s.Clear(true)
		}, 1, 1, "5 more displays"},
		"too many after": {func(s *display.Sink) {
			s.Add("", "", one)
			s.Leave(5)
			s.Clear(false)
			for range 102 {
				s.Add("", "", one)
			}
		}, 100, 2, "2 more displays"},
	} {
		t.Run(name, func(t *testing.T) {
			j, note := shown(t, test.show)
			all := j.Displays()
			if len(all) != test.want || len(all) > 0 && (all[0].Number != test.first || all[0].Unseen) {
				t.Errorf("%d displays, want %d: %+v", len(all), test.want, all)
			}
			if !strings.HasPrefix(note, test.left) || note != "" && test.left == "" {
				t.Errorf("note %q, want %q", note, test.left)
			}
		})
	}
}
