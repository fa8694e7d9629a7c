package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"strconv"
	"strings"

	"asyncrepl/internal/output"
	"asyncrepl/jobs"
	"asyncrepl/jobs/display"
)

// A program is a runner that executes its lines. The "Python" and the "shell" of these tests both
// run programs:
//
//	out "text"       write to stdout; err and tty: to the other streams
//	show MIME "text" show a document of that text; pictures N SIZE: N pictures of about SIZE bytes
//	flood N          write N numbered lines to stdout; errors N: to stderr
//	fill N           write N bytes to stdout, in lines of 16
//	ask KIND "text"  write a prompt, wait for input and report its length
//	keys             take input from now on without asking, as a terminal does; pipe: as a pipe
//	closed           refuse input from now on, as a job does that is ending
//	prompt           be at a prompt and stay there
//	gate NAME        continue when the test opens the gate
//	queue NAME       stay queued until then; must come first
//	hang             run until a stop; stubborn: until a kill
//	linger NAME      run until a stop, and then until the test opens the gate
//	leave NAME       leave a process of that name, which cancel_job can end unless it is
//	                 "unchecked" or "immortal"
//	late "text"      write it after the end
//	note "text"      say so in the receipt
//	pid N            show a process
//	result "repr"    have a result
//	raise "E: text"  fail with that exception; exit N: with that code
type program struct {
	w    *world
	code string
}

// Run implements jobs.Runner.
func (g *program) Run(ctx context.Context, p *jobs.Port) jobs.Outcome {
	out := jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Returned}}
	rec := &out.Receipt
	lines := strings.Split(g.code, "\n")
	if name, ok := strings.CutPrefix(lines[0], "queue "); ok {
		select {
		case <-g.w.gate(name):
		case <-ctx.Done():
			st := p.Stop()
			return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.NotRun, Stop: st}}
		}
		lines = lines[1:]
	}
	if p.Admit(ctx) != nil {
		return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.NotRun, Stop: p.Stop()}}
	}
	p.Begin()
	g.w.begins(p.ID())
	for _, line := range lines {
		if g.step(ctx, p, strings.TrimSpace(line), &out) {
			if rec.Stop = p.Stop(); rec.Stop != nil {
				rec.End, rec.Rungs = jobs.Exited, append(rec.Rungs, rec.Stop.From)
			}
			return out
		}
	}
	return out
}

// step does one line and reports whether the program ends with it.
func (g *program) step(ctx context.Context, p *jobs.Port, line string, out *jobs.Outcome) (end bool) {
	verb, arg, _ := strings.Cut(line, " ")
	rec := &out.Receipt
	switch verb {
	case "":
	case "out":
		p.Write(output.Stdout, []byte(unquote(arg)))
	case "err":
		p.Write(output.Stderr, []byte(unquote(arg)))
	case "tty":
		p.Write(output.TTY, []byte(unquote(arg)))
	case "clear":
		p.Clear(false)
	case "show", "pictures":
		g.show(p, verb, arg)
	case "flood":
		for i := range number(arg) {
			p.Write(output.Stdout, fmt.Appendf(nil, "line %d\n", i))
		}
	case "errors":
		for i := range number(arg) {
			p.Write(output.Stderr, fmt.Appendf(nil, "error %d\n", i))
		}
	case "fill":
		for range number(arg) >> 10 {
			p.Write(output.Stdout, []byte(strings.Repeat("0123456789abcde\n", 64)))
		}
	case "ask":
		kind, prompt, _ := strings.Cut(arg, " ")
		return g.ask(ctx, p, kind, unquote(prompt))
	case "keys":
		p.SetInput(func(_ context.Context, in jobs.Input) (jobs.Delivery, error) {
			p.Write(output.TTY, fmt.Appendf(nil, "typed %d\n", len(in.Text)))
			return jobs.Delivery{}, nil
		})
	case "closed":
		p.SetInput(func(context.Context, jobs.Input) (jobs.Delivery, error) { return jobs.Delivery{}, jobs.ErrEnded })
	case "prompt":
		p.SetWaiting(jobs.Question{Kind: "line", By: "the test"})
	case "pipe":
		p.SetInput(func(context.Context, jobs.Input) (jobs.Delivery, error) { return jobs.Delivery{Unseen: true}, nil })
	case "accepts":
		p.SetAccepts(jobs.Reader{Kind: "line", By: "read by ssh (pid 812), which also waits for a connection to 10.0.0.5:22"})
	case "gate":
		select {
		case <-g.w.gate(arg):
		case <-ctx.Done():
			return true
		}
	case "hang":
		<-ctx.Done()
		p.Write(output.Stderr, []byte("KeyboardInterrupt\n"))
		return true
	case "linger":
		<-ctx.Done()
		<-g.w.gate(arg)
		return true
	case "stubborn":
		for from, changed := p.Wanted(); from != jobs.Kill; from, changed = p.Wanted() {
			if from != "" {
				p.Trying(from)
			}
			<-changed
		}
		return true
	case "leave":
		left := jobs.Process{PID: 4711, Program: arg}
		rec.Left = append(rec.Left, left)
		p.SetCleanup(func(ctx context.Context, _ jobs.Stop) jobs.Remains {
			if arg == "immortal" {
				<-ctx.Done()
				return jobs.Remains{Pending: true}
			}
			if arg == "unchecked" {
				return jobs.Remains{Err: errors.New("the remaining processes could not be checked: too many open files")}
			}
			p.SetCleanup(nil)
			return jobs.Remains{Ended: []jobs.Process{left}}
		})
	case "late":
		go func() { // owned by the test; ends when the gate opens, which every test does
			<-g.w.gate("late")
			p.Write(output.Stdout, []byte(unquote(arg)))
			close(g.w.wroteLate)
		}()
	case "note":
		rec.Notes = append(rec.Notes, unquote(arg))
	case "pid":
		p.SetPID(number(arg))
	case "result":
		out.Result, out.HasResult = unquote(arg), true
	case "raise":
		rec.End, rec.Detail = jobs.Raised, unquote(arg)
		return true
	case "exit":
		rec.End, rec.Code = jobs.Exited, number(arg)
		return true
	default:
		panic("no such line: " + line)
	}
	return false
}

// ask waits for one input and writes its length, never its text.
func (g *program) ask(ctx context.Context, p *jobs.Port, kind, prompt string) (end bool) {
	answered := make(chan string, 1) // the one answer that is taken
	p.Write(output.Stdout, []byte(prompt))
	p.SetInput(func(_ context.Context, in jobs.Input) (jobs.Delivery, error) {
		if strings.Contains(in.Text, "panic") {
			panic("with " + strings.Repeat("x", len(in.Text)))
		}
		p.SetInput(nil)
		p.SetRunning()
		answered <- fmt.Sprintf("%d characters, line %t, eof %t, secret %t\n", len(in.Text), in.Line, in.EOF, in.Secret)
		return jobs.Delivery{Waiting: true}, nil
	})
	p.SetWaiting(jobs.Question{Kind: kind, Prompt: prompt, By: "the test"})
	select {
	case a := <-answered:
		p.Write(output.Stdout, []byte(a))
		return false
	case <-ctx.Done():
		return true
	}
}

func unquote(s string) string {
	u, err := strconv.Unquote(s)
	if err != nil {
		panic("not quoted: " + s)
	}
	return u
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

// show shows a document, or pictures.
func (g *program) show(p *jobs.Port, verb, arg string) {
	sink := display.NewSink(p)
	first, rest, _ := strings.Cut(arg, " ")
	if verb == "show" {
		sink.Add("document", "", []display.Form{{MIME: first, Data: []byte(unquote(rest))}})
		return
	}
	for i := range number(first) {
		sink.Add(fmt.Sprintf("figure %d", i+1), "PNG 1x1", []display.Form{
			{MIME: "image/png", Data: pngOf(i+1, number(rest))},
			{MIME: "image/png", Data: []byte(fmt.Sprintf("full size %d", i+1))},
		})
	}
}

// pngOf returns a PNG of at least that many bytes that ends with its number.
func pngOf(n, size int) []byte {
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 1, 1))); err != nil {
		panic(err)
	}
	b.Write(make([]byte, max(0, size-b.Len()-1)))
	b.WriteByte(byte(n))
	return b.Bytes()
}
