//go:build unix

package browsertest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// focus returns an action that gives an element the focus.
func focus(selector string) chromedp.Action[chromedp.Void] {
	return chromedp.Focus(chromedp.CSS(selector))
}

// A line, a secret, a key and input() are answered on the page. A secret is typed in a field for passwords,
// and is nowhere afterwards.
func TestAnswersOnThePage(t *testing.T) {
	b := newBench(t)
	secret := "xyzzy-" + "plugh"
	for name, c := range map[string]struct {
		job                *jobs.Job
		answer, kind, want string
	}{
		"line":   {b.terminal("read -p 'Name? ' x; echo hello $x"), "bob", "text", "hello bob"},
		"input":  {b.python("lab", "print('hello', input('Name? '))"), "bob", "text", "hello bob"},
		"secret": {b.terminal("stty -echo; printf 'Password: '; read x; stty echo; echo got ${#x}"), secret, "password", "got 11"},
	} {
		t.Run(name, func(t *testing.T) {
			tb := b.open(path(c.job))
			question := jobstest.Asks(t, c.job)
			tb.shows("[data-answer]", strings.TrimSpace(question.Prompt))
			tb.shows("[data-answer]", question.By)
			tb.until(fmt.Sprintf(`document.querySelector("[data-answer] input").type === %q`, c.kind))
			tb.answer(c.answer)
			tb.shows("#output", c.want)
			tb.until(`document.querySelector("[data-answer]") === null`)
			jobstest.EndsAs(t, c.job, "completed")
			if name == "secret" && strings.Contains(value[string](tb, `document.documentElement.outerHTML`), secret) {
				t.Error("the secret is on the page")
			}
		})
	}
}

// A key is typed in the terminal.
func TestKeyOnThePage(t *testing.T) {
	b := newBench(t)
	j := b.terminal("stty -icanon -echo; printf 'any key '; x=$(head -c1); stty sane; echo; echo got $x")
	tb := b.open(path(j))
	if kind := jobstest.Asks(t, j).Kind; kind != "key" {
		t.Fatalf("the job asks for a %s", kind)
	}
	tb.shows("[data-answer]", "press the key")
	tb.until(inTerminal)
	tb.keys("q")
	tb.shows(".xterm-rows", "got q")
}

// inTerminal is true if keys go to the terminal.
const inTerminal = `document.activeElement.matches("#output textarea")`

// A job that begins to wait for keys takes the focus from no field, but from nothing at all.
func TestKeyLeavesTheFocus(t *testing.T) {
	b := newBench(t)
	gates := t.TempDir()
	for i, at := range []string{"[data-search]", "[data-cancel]", "body"} {
		gate := fmt.Sprintf("%s/%d", gates, i)
		j := b.terminal(fmt.Sprintf("echo ready; until [ -e %s ]; do sleep 0.02; done; stty -icanon -echo; head -c1; stty sane", gate))
		tb := b.open(path(j))
		tb.shows(".xterm-rows", "ready")
		if at != "body" {
			tb.do(focus(at))
		}
		must.Do(t, os.WriteFile(gate, nil, 0o600))
		tb.shows("[data-answer]", "press the key")
		if at == "body" {
			tb.until(inTerminal)
		} else if !value[bool](tb, fmt.Sprintf(`document.activeElement.matches(%q)`, at)) {
			t.Errorf("%s has lost the focus", at)
		}
	}
}

// vi is used by keys.
func TestViOnThePage(t *testing.T) {
	b := newBench(t)
	vi := needtest.Program(t, "vi")
	file := filepath.Join(t.TempDir(), "file")
	j := b.terminal(fmt.Sprintf("TERM=xterm %s -u NONE %s", vi, file))
	tb := b.open(path(j))
	tb.shows(".xterm-rows", "~")
	tb.until(inTerminal)
	tb.keys("ihello " + kb.Escape)
	tb.keys("aworld")
	tb.shows(".xterm-rows", "hello world")
	tb.keys(kb.Escape + ":wq" + kb.Enter)
	jobstest.EndsAs(t, j, "completed")
	if got := string(must.Get(os.ReadFile(file))(t)); got != "hello world\n" {
		t.Errorf("vi wrote %q", got)
	}
}

// A terminal answers queries of programs. The server has done that, so what the page's terminal answers never
// leaves the page. What is typed does.
func TestTerminalKeepsItsAnswers(t *testing.T) {
	b := newBench(t)
	gate := filepath.Join(t.TempDir(), "gate")
	queries := `\033[c\033[>c\033[=c\033[5n\033[6n\033[?6n\033[?25$p\033[4$p\033]10;?\007\033]11;?\007\033]4;1;?\007\033[>q\033P$qm\033\\\033[?1004h\033[18t\005`
	j := b.terminal(fmt.Sprintf(`stty raw -echo; until [ -e %s ]; do sleep 0.02; done; printf '%s'; printf 'asked\r\n'; exec cat >/dev/null`, gate, queries))
	tb := b.open(path(j))
	tb.until(`document.querySelector(".xterm-screen") !== null`)
	value[any](tb, `{
		window.sent = [];
		const send = WebSocket.prototype.send;
		WebSocket.prototype.send = function (m) { sent.push(JSON.parse(m)); return send.call(this, m); };
		null
	}`)
	must.Do(t, os.WriteFile(gate, nil, 0o600))
	tb.shows(".xterm-rows", "asked")
	tb.until(`sent.some(m => m.op === "drawn")`)
	if keys := value[string](tb, `sent.filter(m => m.op === "keys").map(m => JSON.stringify(m.text)).join()`); keys != "" {
		t.Errorf("the page has typed %s", keys)
	}
	tb.click(".xterm-screen")
	tb.keys("q")
	tb.until(`sent.filter(m => m.op === "keys").map(m => m.text).join() === "q"`)
}

// An answer that was refused says why.
func TestRefusalOnThePage(t *testing.T) {
	b := newBench(t)
	j := b.terminal("read x")
	tb := b.open(path(j))
	tb.until(`document.querySelector("[data-answer] input") !== null`)
	tb.expect("413") // the browser writes each answer that is an error
	value[any](tb, `{document.querySelector("[data-answer] input").value = "x".repeat(70000); null}`)
	tb.click("[data-answer] .primary")
	tb.shows(".refusal", "64 KiB")
	tb.answer("short")
	jobstest.EndsAs(t, j, "completed")
}

// Cancel and Kill end a job, and the page says that a person did it.
func TestCancelOnThePage(t *testing.T) {
	b := newBench(t)
	for button, line := range map[string]string{"[data-cancel]": "echo on; read x", "[data-force]": "trap '' INT TERM HUP; echo on; while :; do read x; done"} {
		j := b.terminal(line)
		tb := b.open(path(j))
		tb.shows(".xterm-rows", "on")
		tb.click(button)
		polltest.Until(t, "the end of the job", func() bool { return j.Record().Status.Final() })
		tb.shows("header.job", "by person")
		tb.until(`document.querySelector("[data-cancel]") === null`)
		if by := j.Record().Receipt.By; by != jobs.Person {
			t.Errorf("%s: by %s", button, by)
		}
	}
}
