package export_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/output"
	"asyncrepl/internal/test/racetest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
	"asyncrepl/pyrepl"
)

// Output keeps its order, in streams as Jupyter has them, and is the text that a person would see.
func TestOutputs(t *testing.T) {
	w := newWorld(t)
	w.run("", prints(jobs.Receipt{End: jobs.Returned}, "oone\n", "ttwo\r\n", "oa\rb\x1b[1m!\x1b[0m\n", "eerr\n", "othree"))
	w.want(`stdout "one\ntwo\nb!\n"`, `stderr "err\n"`, `stdout "three"`)
	w.run("", func(*jobs.Port) jobs.Outcome {
		return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Returned}, HasResult: true, Result: "[1,\n 2]"}
	})
	w.want(`execute_result {"text/plain":["[1,\n"," 2]"]}`)
}

// A result in Markdown, such as a table, is seen as that.
func TestMarkdown(t *testing.T) {
	w := newWorld(t)
	for result, want := range map[string]string{
		"*a*\nb": `{"text/markdown":["*a*\n","b"],"text/plain":["*a*\n","b"]}`,
		"| | a |\n| --- | --- |\n| 0 | 1 |\n[1 rows x 1 columns]": `{"text/markdown":["| | a |\n","| --- | --- |\n","| 0 | 1 |\n","\n","[1 rows x 1 columns]"],` +
			`"text/plain":["| | a |\n","| --- | --- |\n","| 0 | 1 |\n","[1 rows x 1 columns]"]}`,
	} {
		w.run("", func(*jobs.Port) jobs.Outcome {
			return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Returned}, HasResult: true, Result: result}
		})
		w.src.History.Entries[len(w.src.History.Entries)-1].Markdown = true
		w.want("execute_result " + want)
	}
}

// What was typed stands behind the question, as a terminal shows it. A secret stands nowhere.
func TestAnswers(t *testing.T) {
	w := newWorld(t)
	questions := make(chan jobs.Question)
	j := jobstest.Start(t, w.src.Jobs, jobs.Spec{Kind: jobs.Python}, program(func(p *jobs.Port) jobs.Outcome {
		taken := make(chan struct{})
		p.SetInput(func(context.Context, jobs.Input) (jobs.Delivery, error) {
			p.SetRunning()
			taken <- struct{}{}
			return jobs.Delivery{Waiting: true}, nil
		})
		for q := range questions {
			p.Write(output.Stdout, []byte(q.Prompt))
			p.SetWaiting(q)
			<-taken
		}
		p.Write(output.Stderr, []byte("end"))
		return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Returned}, HasResult: true, Result: "'bob'"}
	}))
	answer := func(kind, prompt, text string, secret bool) {
		questions <- jobs.Question{Kind: kind, Prompt: prompt}
		jobstest.Asks(t, j)
		jobstest.Send(t, j, jobs.Input{Text: text, Line: true, Secret: secret})
	}
	answer("line", "name? ", "bob", false)
	answer("secret", "password? ", "hunter2", false)
	answer("line", "\nkey? ", "swordfish", true)
	answer("line", "\nage? ", "7\n", false)
	close(questions)
	record := jobstest.End(t, j)
	w.add(pyrepl.Entry{Job: record.ID, Ended: time.Now(), Receipt: record.Receipt})
	w.want(`stdout "name? bob\npassword? \nkey? \nage? 7\n"`, `stderr "end"`, `execute_result {"text/plain":["'bob'"]}`)
}

// An answer after which nothing is printed is there, and one whose place is left out is not.
func TestAnswersAtTheEdges(t *testing.T) {
	for name, test := range map[string]struct {
		around string // what is printed before the question and after the answer
		want   bool
	}{"nothing else": {"", true}, "the middle": {strings.Repeat("x", 1<<20), false}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			j := jobstest.Start(t, w.src.Jobs, jobs.Spec{Kind: jobs.Python}, program(func(p *jobs.Port) jobs.Outcome {
				taken := make(chan struct{})
				p.SetInput(func(context.Context, jobs.Input) (jobs.Delivery, error) {
					p.SetRunning()
					close(taken)
					return jobs.Delivery{Waiting: true}, nil
				})
				p.Write(output.Stdout, []byte(test.around))
				p.SetWaiting(jobs.Question{Kind: "line"})
				<-taken
				p.Write(output.Stdout, []byte(test.around))
				return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Returned}}
			}))
			jobstest.Asks(t, j)
			jobstest.Send(t, j, jobs.Input{Text: "bob", Line: true})
			record := jobstest.End(t, j)
			w.add(pyrepl.Entry{Job: record.ID, Ended: time.Now(), Receipt: record.Receipt})
			if text := w.cells()[0].text(); strings.Contains(text, `bob\n`) != test.want {
				t.Errorf("the answer is there: %v, want %v: %.200s", !test.want, test.want, text)
			}
		})
	}
}

// The traceback of a failure becomes its error, with the tracebacks that led to it. What was
// printed before stays a stream.
func TestErrors(t *testing.T) {
	w := newWorld(t)
	tb := "Traceback (most recent call last):\n  File \"<job>\", line 1\n"
	w.run("", prints(raised("ZeroDivisionError: division by zero"), "owarn\n", "ewarning\n"+tb+"ZeroDivisionError: division by zero\n"))
	w.want(`stdout "warn\n"`, `stderr "warning\n"`,
		`error "ZeroDivisionError": "division by zero", "Traceback (most recent call last):|  File \"<job>\", line 1|ZeroDivisionError: division by zero"`)
	chain := "\nDuring handling of the above exception, another exception occurred:\n\n"
	w.run("", prints(raised("b.B: x: y"), "e"+tb+"KeyError: 1\n"+chain+tb+"OSError\n"+chain+tb+"b.B: x: y\nmore\n"))
	if all := w.cells(); strings.Count(all[2-1].text(), "Traceback") != 3 || !strings.HasPrefix(all[1].text(), `error "b.B": "x: y", "Traceback`) {
		t.Error(all[1].text())
	}
	w.run("", prints(raised("SyntaxError: bad"), "e  File \"<job>\"\nSyntaxError: bad\n"))
	w.want(`stderr "  File \"<job>\"\nSyntaxError: bad\n"`, `error "SyntaxError": "bad", "failed (SyntaxError: bad)"`)
	w.run("", prints(raised("E"), "e"+tb+"Another: 1\n"))
	w.want(`stderr "Traceback (most recent call last):\n  File \"<job>\", line 1\nAnother: 1\n"`, `error "E": "", "failed (E)"`)
	w.run("", prints(jobs.Receipt{End: jobs.Signaled, Signal: "SIGSEGV", State: jobs.Lost}, "ox"))
	w.want(`stdout "x"`, `error "failed": "failed (killed by SIGSEGV; variables lost)", "failed (killed by SIGSEGV; variables lost)"`)
}

// A display stands where it was shown, in its full size. One whose data is gone is a line of text.
func TestDisplays(t *testing.T) {
	w := newWorld(t)
	w.src.Jobs = jobs.NewRegistry(jobs.Config{Logs: output.NewStore(output.Config{})}) // in memory: 64 MiB of displays
	w.run("", func(p *jobs.Port) jobs.Outcome {
		line := func(n int) string { return fmt.Sprintf("[display %d]", n) }
		p.Write(output.Stdout, []byte("before\n"))
		p.Display(jobs.Display{Title: "figure 1", Forms: []jobs.Form{{MIME: "image/png"}, {MIME: "image/png"}}}, [][]byte{[]byte("small"), []byte("large")}, line)
		p.Write(output.Stdout, []byte("after\n"))
		p.Display(jobs.Display{Title: "page", Forms: []jobs.Form{{MIME: "text/html"}}}, [][]byte{[]byte("<b>\n</b>")}, line)
		p.Write(output.Stdout, []byte("between\n"))
		p.Display(jobs.Display{Title: "large", Forms: []jobs.Form{{MIME: "image/jpeg"}}}, [][]byte{make([]byte, 65<<20)}, line)
		return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Returned}}
	})
	w.want(`stdout "before\n"`, `display_data {"image/png":"bGFyZ2U=","text/plain":["figure 1"]}`, `stdout "after\n"`,
		`display_data {"text/html":["\u003cb\u003e\n","\u003c/b\u003e"],"text/plain":["page"]}`, `stdout "between\n"`, `stderr "[large: its data is no longer kept]\n"`)
}

// A display without a line in the output has its place between two bytes of it.
func TestDisplaysWithoutALine(t *testing.T) {
	w := newWorld(t)
	w.run("", func(p *jobs.Port) jobs.Outcome {
		page := func(name string) {
			p.Display(jobs.Display{Title: name, Forms: []jobs.Form{{MIME: "text/html"}}}, [][]byte{[]byte(name)}, nil)
		}
		p.Write(output.Stdout, []byte("before\n"))
		page("one")
		page("two")
		p.Write(output.Stdout, []byte("after\n"))
		page("three")
		p.Write(output.Result, []byte("4\n"))
		return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Returned}}
	})
	html := func(name string) string {
		return fmt.Sprintf(`display_data {"text/html":[%q],"text/plain":[%q]}`, name, name)
	}
	w.want(`stdout "before\n"`, html("one"), html("two"), `stdout "after\n"`, html("three"), `execute_result {"text/plain":["4\n"]}`)
}

// Of long output the middle is left out, and that is said. Displays there are kept.
func TestLongOutput(t *testing.T) {
	racetest.Skip(t)
	w := newWorld(t)
	half := strings.Repeat("0123456\n", 100_000)
	record := w.run("", func(p *jobs.Port) jobs.Outcome {
		p.Write(output.Stdout, []byte(half))
		p.Display(jobs.Display{Title: "t", Forms: []jobs.Form{{MIME: "text/plain"}}}, [][]byte{[]byte("shown")}, func(int) string { return "[t]" })
		p.Write(output.Stdout, []byte(half))
		return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Returned}}
	})
	c := w.cells()[0]
	left := 2*len(half) + len("[t]\n") - 1<<20
	if len(c.Outputs) != 4 || len(strings.Join(c.Outputs[0].Text, "")) != 1<<19 || len(strings.Join(c.Outputs[3].Text, "")) != 1<<19 ||
		c.Outputs[1].Type != "display_data" || !strings.Contains(strings.ReplaceAll(strings.Join(c.Outputs[2].Text, ""), ",", ""), fmt.Sprintf("[%d bytes of output are left out; job://%s/output", left, record.ID)) {
		t.Errorf("%d bytes left out; %.2000s", left, c.text())
	}
}

// Output that just fits is there in full.
func TestOutputUpToTheLimit(t *testing.T) {
	w := newWorld(t)
	text := strings.Repeat("x", 1<<20)
	w.run("", prints(jobs.Receipt{End: jobs.Returned}, "o"+text))
	w.want(`stdout "` + text + `"`)
}

// Output that the log has dropped is counted where it was, and a display there is kept.
func TestDroppedOutput(t *testing.T) {
	w := newWorld(t)
	w.src.Jobs = jobs.NewRegistry(jobs.Config{Logs: output.NewStore(output.Config{Cap: 64 << 10})})
	half := strings.Repeat("0123456\n", 64<<10)
	record := w.run("", func(p *jobs.Port) jobs.Outcome {
		p.Write(output.Stdout, []byte("begin\n"+half))
		p.Display(jobs.Display{Title: "t", Forms: []jobs.Form{{MIME: "text/plain"}}}, [][]byte{[]byte("shown")}, func(int) string { return "[t]" })
		p.Write(output.Stdout, []byte(half[:1<<18]+"end\n"))
		return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Returned}}
	})
	j, err := w.src.Jobs.Get(record.ID)
	if err != nil {
		t.Fatal(err)
	}
	c, stat := w.cells()[0], j.Log().Stat()
	if len(c.Outputs) != 4 || !strings.HasPrefix(strings.Join(c.Outputs[0].Text, ""), "begin\n") || c.Outputs[1].Type != "display_data" ||
		!strings.HasSuffix(strings.Join(c.Outputs[3].Text, ""), "end\n") {
		t.Fatalf("%.3000s", c.text())
	}
	note := strings.ReplaceAll(strings.Join(c.Outputs[2].Text, ""), ",", "")
	if want := fmt.Sprintf("[%d bytes of output are left out; job://%s/output", stat.Dropped, record.ID); stat.Dropped == 0 || !strings.HasPrefix(note, want) {
		t.Errorf("%s; want %s", note, want)
	}
}

// figures returns a program that shows n pictures of so many bytes and has left others out.
func figures(n, size int, text string) program {
	return func(p *jobs.Port) jobs.Outcome {
		for range n {
			p.Write(output.Stdout, []byte(text))
			p.Display(jobs.Display{Title: "t", Picture: true, Unseen: true, Forms: []jobs.Form{{MIME: "image/png"}}}, [][]byte{make([]byte, size)}, func(int) string { return "[t]" })
		}
		notes := []string{"a note", "50 more displays were left out: 100 displays of a job are kept"}
		return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Returned, Notes: notes}}
	}
}

// A notebook holds a limited amount of output; the jobs after that keep their code and figures, as
// far as these go.
func TestMuchOutput(t *testing.T) {
	racetest.Skip(t)
	w := newWorld(t)
	w.outputs, w.displays = 3, 25
	w.run("much", prints(jobs.Receipt{End: jobs.Returned}, "oxxxx"))
	record := w.run("next", figures(3, 12, "x"))
	id := record.ID
	w.want(fmt.Sprintf(`stderr "[the output of this job is left out: the notebook has 32 MiB of output; job://%s/output has it]\n"`, id),
		`display_data {"image/png":"AAAAAAAAAAAAAAAA","text/plain":["t"]}`, `display_data {"image/png":"AAAAAAAAAAAAAAAA","text/plain":["t"]}`,
		fmt.Sprintf(`stderr "[t is left out: the notebook has 160 MiB of displays; job://%s/display/3 has it]\n"`, id),
		`stderr "[50 more displays were left out: 100 displays of a job are kept]\n"`)
}

// A notebook has every figure that is kept, and says that some are missing.
func TestFiguresAreInTheNotebook(t *testing.T) {
	w := newWorld(t)
	w.run("many", figures(100, 1000, ""))
	count := map[string]int{}
	for _, o := range w.cells()[0].Outputs {
		count[o.Type]++
	}
	if count["display_data"] != 100 || count["stream"] != 1 {
		t.Errorf("outputs: %v", count)
	}
}

// What a job has replaced is not in the notebook: it has the last state, as Jupyter would.
func TestNotebookHasTheLastState(t *testing.T) {
	w := newWorld(t)
	w.run("", func(p *jobs.Port) jobs.Outcome {
		for n := range 20 {
			p.Clear(true)
			p.Write(output.Stderr, fmt.Appendf(nil, "epoch %d\n", n))
			p.Display(jobs.Display{Title: "t", Forms: []jobs.Form{{MIME: "text/html"}}}, [][]byte{fmt.Appendf(nil, "%d", n)}, func(int) string { return "[t]" })
		}
		p.Write(output.Stdout, []byte("done\n"))
		p.Clear(true)
		return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Returned}}
	})
	w.want(`stderr "epoch 19\n"`, `display_data {"text/html":["19"],"text/plain":["t"]}`, `stdout "done\n"`)
}

// Cells are numbered from each loss of the variables on, as Jupyter numbers them after a restart. A
// job that runs has no number; of one that is forgotten the code and the outcome remain.
func TestCells(t *testing.T) {
	w := newWorld(t)
	w.src.History.Dropped = 1234
	set := pyrepl.Work{Request: &pyrepl.Request{Do: "set", Name: "s", Value: "5"}}
	w.add(pyrepl.Entry{Job: "01SET", Work: set, Receipt: raised("E: x"), Ended: time.Now()}) // is none
	one := w.run("one", prints(jobs.Receipt{End: jobs.Returned}))
	w.add(pyrepl.Entry{Job: "01FORGOTTEN", Work: pyrepl.Work{Code: "two"}, Receipt: raised("E: x"), Ended: time.Now().Add(time.Hour)})
	w.add(pyrepl.Entry{Lost: "Python was restarted; variables lost: x"})
	w.run("three", prints(jobs.Receipt{End: jobs.Returned}))
	release := make(chan struct{})
	j := jobstest.Start(t, w.src.Jobs, jobs.Spec{Kind: jobs.Python}, program(func(p *jobs.Port) jobs.Outcome {
		p.Write(output.Stdout, []byte("so far"))
		<-release
		return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Returned}}
	}))
	jobstest.Prints(t, j, "so far")
	w.add(pyrepl.Entry{Job: j.ID(), Work: pyrepl.Work{Code: "four"}})
	var got strings.Builder
	for _, c := range w.cells() {
		count := 0
		if c.Count != nil {
			count = *c.Count
		}
		title, _, _ := strings.Cut(c.Metadata.Title, ", ")
		fmt.Fprintf(&got, "%d %q %s\n%s", count, strings.Join(c.Source, ""), strings.NewReplacer(one.ID, "ONE", j.ID(), "FOUR").Replace(title), c.text())
	}
	close(release)
	jobstest.End(t, j)
	three := w.src.History.Entries[4].Job
	want := "0 \"Left out before these: 1,234 jobs, whose code the session no longer keeps.\" \n1 \"one\" job ONE: completed\n" +
		"2 \"two\" job 01FORGOTTEN: failed (E: x)\nstderr \"[the output of this job is gone: the server no longer keeps the job]\\n\"\n" +
		"error \"E\": \"x\", \"failed (E: x)\"\n0 \"**Python was restarted; variables lost: x**\" \n1 \"three\" job " + three + ": completed\n" +
		"0 \"four\" job FOUR: still running\nstdout \"so far\"\n"
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// Code that was stopped or has ended Python runs neither in the notebook nor in the script. Its
// outputs are kept. Code that has failed runs again.
func TestHarmfulCodeIsAComment(t *testing.T) {
	interrupted := []jobs.Rung{jobs.Interrupt}
	file := pyrepl.Entry{Work: pyrepl.Work{Path: "pipe"}, Receipt: raised("E: pipe is no regular file"), Uncompiled: true}
	unread := file
	unread.Unread = true
	for name, test := range map[string]struct {
		entry pyrepl.Entry
		why   string
	}{
		"crashed":              {pyrepl.Entry{Receipt: jobs.Receipt{End: jobs.Signaled, Signal: "SIGSEGV", State: jobs.Lost}}, "Python ended while this ran"},
		"exited":               {pyrepl.Entry{Receipt: jobs.Receipt{End: jobs.Exited, Code: 3, State: jobs.Lost}}, "Python ended while this ran"},
		"cancelled":            {pyrepl.Entry{Receipt: jobs.Receipt{End: jobs.Raised, Rungs: interrupted, Stop: &jobs.Stop{By: jobs.Agent}}}, "This was stopped"},
		"timed out":            {pyrepl.Entry{Receipt: jobs.Receipt{End: jobs.Raised, Stop: &jobs.Stop{By: jobs.Limit}, State: jobs.Lost}}, "This was stopped"},
		"failed when stopped":  {pyrepl.Entry{Receipt: jobs.Receipt{End: jobs.Raised, Detail: "ValueError: x", Rungs: interrupted}}, "This was stopped"},
		"ended when stopped":   {pyrepl.Entry{Receipt: jobs.Receipt{End: jobs.Returned, Rungs: interrupted}}, "This was stopped"},
		"a file that is none":  {unread, "This file could not be read"},
		"a file that has run":  {file, ""},
		"failed":               {pyrepl.Entry{Receipt: raised("E: x")}, ""},
		"exited, Python lives": {pyrepl.Entry{Receipt: jobs.Receipt{End: jobs.Exited, Code: 3, Detail: jobs.SysExit, State: jobs.Kept}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			e := test.entry
			if e.Work.Path == "" {
				e.Work.Code = "harm()\n\nmore()"
			}
			record := w.run("", prints(e.Receipt, "oso far\n"))
			e.Job, e.Ended = record.ID, time.Now()
			w.src.History.Entries = nil
			w.add(e)
			c := w.cells()[0]
			if !strings.HasPrefix(c.text(), `stdout "so far\n"`) {
				t.Errorf("the outputs are %s", c.text())
			}
			saved, err := w.src.Save(w.workspace(), "x.py", true)
			if err != nil {
				t.Fatal(err)
			}
			script, _ := os.ReadFile(saved.Path)
			for what, code := range map[string]string{"the cell": strings.Join(c.Source, ""), "the script": string(script)} {
				live := strings.TrimSpace(regexp.MustCompile(`(?m)^#.*$`).ReplaceAllString(code, "")) != ""
				if live != (test.why == "") || test.why != "" && !strings.Contains(code, "# "+test.why+", so it is a comment here:\n# ") {
					t.Errorf("%s, want %q:\n%s", what, test.why, code)
				}
			}
		})
	}
}

// A script has the code without outputs.
func TestScript(t *testing.T) {
	w := newWorld(t)
	w.run("print('x')", prints(jobs.Receipt{End: jobs.Returned}, "oout\n"))
	w.add(pyrepl.Entry{Lost: "Python was restarted; variables lost"})
	w.add(pyrepl.Entry{Job: "01A", Work: pyrepl.Work{Code: "await x"}, Awaits: true, Ended: time.Now().Add(time.Second), Receipt: jobs.Receipt{End: jobs.Returned}})
	w.add(pyrepl.Entry{Job: "01B", Work: pyrepl.Work{Code: "x = ("}, Uncompiled: true, Ended: time.Now().Add(time.Second), Receipt: raised("SyntaxError: bad")})
	saved, err := w.src.Save(w.workspace(), "x.py", true)
	if err != nil || saved.Cells != 4 {
		t.Fatal(saved, err)
	}
	text, _ := os.ReadFile(saved.Path)
	for _, want := range []string{"\nprint('x')\n", "\n# **Python was restarted; variables lost**\n", "\n# This cell awaits at top level", "\nawait x\n", "\n# x = (\n"} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	if bytes.Contains(text, []byte("out\n")) {
		t.Errorf("output in:\n%s", text)
	}
}
