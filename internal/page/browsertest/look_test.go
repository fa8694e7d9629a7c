//go:build unix

package browsertest

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs/jobstest"
)

func (tb *tab) resize(width, height int64) {
	tb.t.Helper()
	tb.do(chromedp.EmulateViewport(width, height))
}

// On a phone, the list and a job are two screens, and neither is wider than the screen.
func TestPhone(t *testing.T) {
	b := newBench(t)
	j := b.terminal("printf '%0200d\n' 1; read -p 'Go on? ' x; echo $x")
	jobstest.Asks(t, j)
	tb := b.tab(390, 844)
	tb.navigate("/")
	tb.shows(row(j), "Go on?")
	fits := func() {
		t.Helper()
		tb.until(`document.scrollingElement.scrollWidth <= 390`)
		tb.until(`[...document.querySelectorAll("nav, main, header, form, .tools > *, .line > *")].every(e => e.getBoundingClientRect().right <= 391)`)
	}
	visible := func(selector string) string {
		return fmt.Sprintf(`document.querySelector(%q).checkVisibility()`, selector)
	}
	tb.until(visible("nav") + " && !" + visible("main"))
	fits()
	tb.click(row(j))
	tb.until(visible("main") + " && !" + visible("nav"))
	fits()
	tb.answer("yes")
	tb.shows("#output", "yes")
	tb.click(".back")
	tb.until(visible("nav") + " && !" + visible("main"))
	jobstest.End(t, b.python("lab", "values = list(range(1000))"))
	tb.navigate("/sessions/lab")
	tb.shows("tbody tr", "values")
	fits()
	if wrapped := value[bool](tb, `document.querySelector("thead").offsetHeight > 30`); wrapped {
		t.Error("the names of the columns are wrapped")
	}
}

// Everything is done by the keyboard alone.
func TestKeyboardAlone(t *testing.T) {
	b := newBench(t)
	first := b.terminal("exec cat") // waits in a program that takes input
	second := b.pipe("echo second")
	jobstest.End(t, second)
	third := b.pipe("echo third")
	jobstest.End(t, third)
	tb := b.open("/")
	tb.shows(row(first), "cat")
	has := func(selector string) {
		t.Helper()
		tb.until(fmt.Sprintf(`document.activeElement.matches(%s)`, quote(selector)))
	}
	tb.keys("/")
	has("[data-filter]")
	tb.keys("second")
	tb.until(`document.querySelectorAll("[data-job]").length === 1`)
	tb.keys(kb.Enter)
	has(row(second))
	tb.keys("/")
	tb.keys(kb.Escape)
	tb.until(`document.querySelectorAll("[data-job]").length === 3 && document.activeElement === document.body`)
	top := value[string](tb, `document.querySelector("[data-job]").dataset.job`)
	tb.keys("j")
	has("[data-job='" + top + "']")
	tb.keys("j")
	tb.keys("j")
	tb.keys("j")
	has(row(second))
	tb.keys("k")
	tb.keys(kb.Enter)
	tb.shows("#output", "third")
	tb.keys(kb.Escape)
	tb.until(`location.pathname === "/"`)

	tb.click(row(second))
	tb.shows("#output", "second")
	tb.do(focus("[data-search]"))
	tb.keys(kb.Escape) // leaves the field
	tb.keys(kb.Escape)
	has(row(second))

	tb.navigate(path(first))
	tb.shows(".xterm-rows", "")
	tabTo := func(selector string) {
		t.Helper()
		polltest.Check(t, func() error {
			tb.keys(kb.Tab)
			if value[bool](tb, fmt.Sprintf(`document.activeElement.matches(%s)`, quote(selector))) {
				return nil
			}
			return fmt.Errorf("Tab does not reach %s", selector)
		})
	}
	tabTo(".xterm-helper-textarea")
	tb.keys("typed" + kb.Enter)
	jobstest.Prints(t, first, "typed")
	tb.keys(".", chromedp.ModifierCtrl)
	has("[data-cancel]")
	tb.until(`document.querySelector("[data-answer] input") !== null`)
	has("[data-cancel]") // cat asks again, and that takes no key from the button
	tb.keys(kb.Tab)
	has("[data-force]")
	tb.keys(kb.Enter)
	jobstest.EndsAs(t, first, "cancelled (killed by person)")
	tb.shows("header.job", "by person")
}

// Every control has a name that a screen reader says.
func TestEveryControlIsNamed(t *testing.T) {
	b := newBench(t)
	shown := b.python("lab", "class P:\n    def _repr_png_(self): return "+picture+"\ndisplay(P())\nprint(1)")
	jobstest.End(t, shown)
	asks := b.terminal("read -p 'Go on? ' x")
	jobstest.Asks(t, asks)
	tb := b.open("/")
	roles := map[string]int{}
	for path, sign := range map[string]string{"/": row(asks), path(asks): ".xterm-rows", path(shown): "#output img", "/sessions/lab": "main:has(summary) .cell-output img"} {
		tb.navigate(path)
		tb.until(fmt.Sprintf("document.querySelector(%s) !== null", quote(sign)))
		tb.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
			tree, err := cdp.Call(ctx, target, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
			if err != nil {
				return err
			}
			for _, node := range tree.Nodes {
				role, name := text(node.Role), text(node.Name)
				if !slices.Contains([]string{"button", "link", "textbox", "searchbox", "combobox", "image", "log", "navigation", "region", "article", "progressbar", "Iframe", "DisclosureTriangle"}, role) || node.Ignored {
					continue
				}
				roles[role]++
				if strings.TrimSpace(name) == "" {
					t.Errorf("%s has a %s without a name", path, role)
				}
			}
			return nil
		}))
	}
	for _, role := range []string{"button", "link", "textbox", "searchbox", "image", "log", "navigation", "DisclosureTriangle"} {
		if roles[role] == 0 {
			t.Errorf("no %s was found", role)
		}
	}
}

func text(v *accessibility.Value) string {
	if v == nil {
		return ""
	}
	return strings.Trim(string(v.Value), `"`)
}

// unreadable returns the texts whose contrast with what is behind them is below 4.5, which WCAG asks for.
const unreadable = `(() => {
	const parse = c => (c.match(/[\d.]+/g) ?? []).map(Number);
	const light = ([r, g, b]) => [r, g, b].map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4).reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
	const behind = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.length === 3 || c[3] > 0) return c; } return [255, 255, 255]; };
	const bad = [];
	for (const e of document.querySelectorAll("body *")) {
		const own = [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
		if (!own || !e.checkVisibility() || e.closest(".xterm, .spoken, option")) continue;
		const [a, b] = [light(parse(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
		const contrast = (a + 0.05) / (b + 0.05);
		if (contrast < 4.5) bad.push(e.className + " " + e.innerText.slice(0, 30) + " " + contrast.toFixed(2));
	}
	return bad.join("\n");
})()`

// The page is dark or light as the system says, at once, and all of it can be read.
func TestDarkAndLight(t *testing.T) {
	b := newBench(t)
	log := b.pipe(`for i in 0 1 2 3 4 5 6 7; do printf "\033[3${i}mcolour $i \033[9${i}mbright $i\033[0m\n"; done; echo oops >&2; exit 1`)
	jobstest.End(t, log)
	jobstest.End(t, b.pipe("true"))
	jobstest.End(t, b.python("lab", "x = 1"))
	b.pipe("read x")
	asks := b.terminal("echo hello; read -p 'Go on? ' x")
	jobstest.Asks(t, asks)
	tb := b.tab(1280, 800)
	schemes := map[string]string{"light": "rgb(255, 255, 255)", "dark": "rgb(20, 22, 26)"}
	for scheme, want := range schemes {
		for address, sign := range map[string]string{path(log): "oops", path(asks): "hello"} {
			tb.sees(scheme)
			tb.navigate(address)
			tb.shows("#output", sign)
			tb.shows(row(log), "failed")
			if got := value[string](tb, `getComputedStyle(document.body).backgroundColor`); got != want {
				t.Errorf("%s: the page is %s", scheme, got)
			}
			if bad := value[string](tb, unreadable); bad != "" {
				t.Errorf("%s: %s has text that is hard to read:\n%s", scheme, address, bad)
			}
		}
	}
	terminal := `getComputedStyle(document.querySelector(".xterm-scrollable-element")).backgroundColor`
	tb.navigate(path(asks))
	for _, scheme := range []string{"dark", "light", "dark"} { // the terminal follows
		tb.sees(scheme)
		tb.until(fmt.Sprintf(`document.querySelector(".xterm-scrollable-element") && %s === %q`, terminal, schemes[scheme]))
	}
}

var pictureFile = flag.String("picture", "", "the file that TestPicture writes the picture of the README to")

// The picture of the README shows jobs as they are:
//
//	go test ./internal/page/browsertest -run TestPicture -picture "$PWD/docs/page.png"
func TestPicture(t *testing.T) {
	b := newBench(t)
	jobstest.End(t, b.pipe("git clone --depth 1 . /nonexistent/copy"))
	jobstest.End(t, b.python("lab", "import csv, statistics\nrows = [float(i) for i in range(1000)]\nstatistics.mean(rows)"))
	jobstest.End(t, b.python("lab", "slope = rows[10] / 0"))
	tests := b.terminal(`# run the tests
i=0; while :; do i=$((i+1)); printf '\033[32mok\033[0m   test_%03d\n' $i; sleep 1; done`)
	jobstest.Prints(t, tests, "ok")
	asks := b.terminal(`# deploy to staging
printf '\033[1mplan\033[0m  3 to add, \033[33m1 to change\033[0m, \033[31m0 to destroy\033[0m\n\n'
for s in api worker cache; do printf '  \033[32m+\033[0m service %s\n' $s; done
printf '  \033[33m~\033[0m database main: 2 -> 3 replicas\n\n'
read -p 'Apply these changes? [y/N] ' answer && echo "applied: $answer"`)
	jobstest.Asks(t, asks)
	tb := b.tab(1280, 720)
	tb.sees("light")
	tb.navigate(path(asks))
	tb.shows(".xterm-rows", "Apply these changes?")
	tb.shows(row(asks), "waiting")
	tb.shows(".facts", "started")
	if *pictureFile != "" {
		tb.until(`document.fonts.status === "loaded"`)
		tb.picture(*pictureFile)
	}
}
