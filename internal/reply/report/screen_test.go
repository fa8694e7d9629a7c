package report

import (
	"context"
	"strings"
	"testing"

	"asyncrepl/internal/output"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// A drawer writes to a terminal and then waits for a key, or only accepts input.
type drawer struct {
	rows, cols int
	written    string
	waits      bool
	drawn      chan struct{}
}

func (d drawer) Run(ctx context.Context, p *jobs.Port) jobs.Outcome {
	p.SetTerminal(func() (rows, cols int) { return d.rows, d.cols })
	p.Begin()
	p.Write(output.TTY, []byte(d.written))
	if d.waits {
		p.SetWaiting(jobs.Question{Kind: "key"})
	} else {
		p.SetAccepts(jobs.Reader{Kind: "key", By: "read by less (pid 812), which also waits for a timer"})
	}
	close(d.drawn)
	<-ctx.Done()
	return jobs.Outcome{}
}

func (d drawer) start(t *testing.T) *jobs.Job {
	t.Helper()
	d.drawn = make(chan struct{})
	j := jobstest.Start(t, jobstest.Registry(t), jobs.Spec{Kind: jobs.Shell}, d)
	<-d.drawn
	return j
}

const sized = "5 rows, 20 columns; "

// A program that draws on all of its terminal is shown by its screen, whatever the call; another
// one by its text. A call can ask for a view.
func TestScreenInPlaceOfText(t *testing.T) {
	const full = "before\r\n\x1b[?1049h\x1b[2;3Hpager\x1b[5;1H:"
	title := strings.Repeat("\x1b]0;"+strings.Repeat("x", 1000)+"\a", 300) // of the window, often
	const rows = "--- SCREEN ---\n\n  pager\n\n\n:\n"
	tests := map[string]struct {
		written string
		window  Window
		screen  string // the line
		output  string // the sections
		omitted string
	}{
		"execute":              {full, Window{Part: Ends}, sized + "cursor in row 5, column 2", "--- STDOUT ---\nbefore\n" + rows, ""},
		"check":                {full, Window{Part: Newest}, sized + "cursor in row 5, column 2", rows, "8 bytes (cursor 0..8)"},
		"from a cursor":        {full, Window{Part: Forward, From: 20}, sized + "cursor in row 5, column 2", rows, ""},
		"from one before":      {full, Window{Part: Forward, From: 2}, "", "--- STDOUT ---\nfore\n\n  pager\n\n:\n", ""},
		"text":                 {full, Window{Part: Newest, View: TextView}, "", "--- STDOUT ---\nbefore\n\n  pager\n\n:\n", ""},
		"raw":                  {full, Window{Part: Newest, View: RawView}, "", "--- STDOUT ---\nbefore\\r\\n\n\\x1b[?1049h\\x1b[2;3Hpager\\x1b[5;1H:\n", ""},
		"screen":               {full, Window{Part: Newest, View: ScreenView}, sized + "cursor in row 5, column 2", rows, ""},
		"top":                  {"\x1b[?1h\x1b=\x1b[?25l\x1b[H\x1b[2Jtop\x1b[H", Window{Part: Ends}, sized + "cursor hidden", "--- SCREEN ---\ntop\n", ""},
		"after it has ended":   {full + "\x1b[?1049l$ ", Window{Part: Ends}, "", "--- STDOUT ---\nbefore\n\n  pager\n\n:\n$ \n", ""},
		"a prompt":             {"Name? ", Window{Part: Ends}, "", "--- STDOUT ---\nName? \n", ""},
		"a prompt, as screen":  {"Name? ", Window{Part: Ends, View: ScreenView}, sized + "cursor in row 1, column 7", "--- SCREEN ---\nName?\n", ""},
		"nothing":              {"", Window{Part: Ends, View: ScreenView}, sized + "cursor in row 1, column 1", "", ""},
		"a mark":               {"\x1b[?1049h\x1b[H--- STDOUT ---\x1b[H", Window{Part: Ends}, sized + "cursor in row 1, column 1", "--- SCREEN ---\n\\--- STDOUT ---\n", ""},
		"not enough room":      {full, Window{Part: Newest, MaxChars: 12}, sized + "cursor in row 5, column 2; only the first 4 rows fit", "--- SCREEN ---\n\n  pager\n\n\n", "8 bytes (cursor 0..8)"},
		"long ago":             {"old" + title + "\x1b[Hrow", Window{Part: Ends, View: ScreenView}, "may be incomplete; " + sized + "cursor in row 1, column 4", "", ""},
		"long ago, but erased": {"old" + title + "\x1b[H\x1b[2Jrow", Window{Part: Ends, View: ScreenView}, sized + "cursor in row 1, column 4", "--- SCREEN ---\nrow\n", ""},
	}
	for name, tt := range tests {
		for _, waits := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				j := drawer{rows: 5, cols: 20, written: tt.written, waits: waits}.start(t)
				w := tt.window
				if w.MaxChars == 0 {
					w.MaxChars = 16_000
				}
				text := (&Reporter{}).Job(j, w).String()
				head, output, _ := strings.Cut(text, "\n\n")
				if !strings.Contains(head+"\n", "\nScreen: "+tt.screen+"\n") && tt.screen != "" || strings.Contains(head, "Screen:") != (tt.screen != "") ||
					output != tt.output && name != "long ago" || tt.omitted != "" && !strings.Contains(head, "\nOmitted: "+tt.omitted) {
					t.Errorf("%s\nwant Screen: %s\nOmitted: %s\n%s", text, tt.screen, tt.omitted, tt.output)
				}
			})
		}
	}
}

// A screen that can't be drawn is not shown in place of text. The reply to a call that asks for
// it says what to do.
func TestScreenThatCantBeDrawn(t *testing.T) {
	j := drawer{rows: 1000, cols: 1000, written: "\x1b[?1049htext", waits: true}.start(t)
	for view, want := range map[string]string{"": "--- STDOUT ---\ntext\n", ScreenView: "\nScreen: the screen can't be drawn: read view=text\n"} {
		text := (&Reporter{}).Job(j, Window{MaxChars: 16_000, View: view}).String()
		if !strings.Contains(text, want) || strings.Contains(text, "text\n") && strings.Contains(text, "Screen:") && view == "" || strings.Contains(text, "SCREEN") {
			t.Errorf("view %q:\n%s", view, text)
		}
	}
}

// A painter draws what it receives on a terminal, and waits for a key.
type painter struct {
	drawing chan string
	drawn   chan struct{}
}

func (d painter) Run(_ context.Context, p *jobs.Port) jobs.Outcome {
	p.SetTerminal(func() (rows, cols int) { return 6, 20 })
	p.Begin()
	for text := range d.drawing {
		p.Write(output.TTY, []byte(text))
		p.SetWaiting(jobs.Question{Kind: "key"})
		d.drawn <- struct{}{}
	}
	return jobs.Outcome{}
}

// The reply to input shows only the rows of a screen that the client does not have yet.
func TestScreenRowsThatChanged(t *testing.T) {
	d := painter{make(chan string), make(chan struct{})}
	j := jobstest.Start(t, jobstest.Registry(t), jobs.Spec{Kind: jobs.Shell}, d)
	defer close(d.drawing)
	var n Notices
	const first = "\x1b[?1049h\x1b[H1\r\n2\r\n3\r\n4\r\n5\r\n:"
	seen := "" // the cursor of the screen that the client was shown last
	for i, step := range []struct {
		draws   string
		view    string
		input   bool
		dropped bool
		want    string // the section
	}{
		{first, "", true, false, "--- SCREEN ---\n1\n2\n3\n4\n5\n:\n"},
		{"\x1b[3;1Hthree\x1b[6;1H/", "", true, false, "--- SCREEN ROWS CHANGED ---\n3: three\n6: /\n"},
		{"", "", true, false, ""},
		{"\x1b[5;1H\x1b[K\x1b[6;1H\x1b[K", "", true, true, "--- SCREEN ROWS CHANGED ---\n5:\n6:\n"},
		{"\x1b[1;1Hone", "", true, false, "--- SCREEN ROWS CHANGED ---\n1: one\n5:\n6:\n"},
		{"\x1b[1;1HONE\x1b[2;1HTWO", "", true, false, "--- SCREEN ROWS CHANGED ---\n1: ONE\n2: TWO\n"},
		{"", ScreenView, false, false, "--- SCREEN ---\nONE\nTWO\nthree\n4\n"},
		{"\x1b[4;1Hfour", "", false, false, "--- SCREEN ---\nONE\nTWO\nthree\nfour\n"},
		{"\x1b[H\x1b[2Jx\x1b[2;1HTWO", "", true, false, "--- SCREEN ---\nx\nTWO\n"},
	} {
		d.drawing <- step.draws
		<-d.drawn
		c := n.Call()
		c.Watch(j)
		text := (&Reporter{}).Job(j, Window{MaxChars: 16_000, View: step.view, Changes: step.input, Notices: c}).String()
		c.Settle(!step.dropped)
		head, got, _ := strings.Cut(text, "\n\n")
		line := ""
		switch {
		case step.want == "":
			line = "; no text has changed since cursor " + seen + "\n"
		case strings.Contains(step.want, "CHANGED"):
			line = "; only the rows that changed since cursor " + seen + " are shown\n"
		}
		if got != step.want || !strings.Contains(head, line) || strings.Contains(head, "since cursor") != (line != "") {
			t.Errorf("step %d:\n%s\nwant %s\n%s", i, text, line, step.want)
		}
		if !step.dropped {
			_, seen, _ = strings.Cut(head, "\nCursor: ")
			seen, _, _ = strings.Cut(seen, "\n")
		}
	}

	// While another answer is under way, it is not known what the client has seen.
	d.drawing <- "\x1b[1;1Hy"
	<-d.drawn
	calls := []*CallNotices{n.Call(), n.Call()}
	for _, c := range calls {
		c.Watch(j)
	}
	if text := (&Reporter{}).Job(j, Window{MaxChars: 16_000, Changes: true, Notices: calls[1]}).String(); !strings.Contains(text, "--- SCREEN ---\ny\nTWO\n") {
		t.Errorf("beside another call:\n%s", text)
	}
}
