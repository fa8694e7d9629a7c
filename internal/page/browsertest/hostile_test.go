//go:build unix

package browsertest

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"asyncrepl/jobs/jobstest"
)

const attack = `"'><img src=x onerror=parent.hit=1><script>parent.hit=1</script><iframe srcdoc="<script>parent.parent.hit=1</script>"></iframe>{{hit}}${hit=1}`

// Whatever a job puts into its title, prompt, output, variables, displays and file names is text on the page,
// and so is the address. Nothing of it runs.
func TestNothingOfAJobRuns(t *testing.T) {
	b := newBench(t)
	code := fmt.Sprintf(`# %[1]s
attack = %[2]q
class Document:
    def _repr_html_(self): return attack + "<p>line</p><script>parent.hit=1</script>" * 5000
class Picture:
    def _repr_mimebundle_(self, include=None, exclude=None): return {"image/svg+xml": "<svg xmlns='http://www.w3.org/2000/svg' width='10' height='10' onload='parent.hit=1'><script>parent.hit=1</script></svg>", "text/plain": attack}
class Odd:
    def _repr_mimebundle_(self, include=None, exclude=None): return {"application/x-" + "odd": attack, "text/plain": attack}
print(attack)
print("\033]8;;javascript:parent.hit=1\033\\" + attack + "\033]8;;\033\\")
print("\033]8;;data:text/html,<script>parent.hit=1</script>\033\\" + attack + "\033]8;;\033\\")
print("[x, job://x/display/1]")
display(Document()); display(Picture()); display(Odd())
open(attack.replace("/", "-")[:200], "w").close()
input(attack)
attack`, strings.ReplaceAll(attack, "\n", " "), attack)
	j := b.python("lab", code)
	jobstest.Asks(t, j)
	shell := b.terminal(fmt.Sprintf("printf '%%s\\033]0;%%s\\007' '%[1]s' '%[1]s'; read -p '%[1]s' x", strings.NewReplacer("'", "", "\\", "").Replace(attack)))
	jobstest.Asks(t, shell)
	tb := b.tab(1280, 800)
	tb.expect("Blocked script execution", "Blocked form")
	calm := func() {
		t.Helper()
		if hit := value[bool](tb, `"hit" in window || document.querySelector("nav img, nav script, nav iframe, header img, #output .line img, [data-answer] img, td img, body script") !== null`); hit {
			t.Errorf("something has run at %s", value[string](tb, "location.href"))
		}
	}
	for address, sign := range map[string]string{
		path(j):                               "#output",
		path(shell):                           ".xterm-rows",
		"/sessions/lab":                       ".cell-output",
		"/jobs/" + url.PathEscape(attack):     ".empty",
		"/sessions/" + url.PathEscape(attack): "h1",
		"/sessions/lab?server=" + url.QueryEscape(attack): "h1",
		"/#" + attack: "[data-job]",
	} {
		tb.navigate(address)
		tb.shows(sign, "")
		tb.shows("nav", "<img")
		calm()
	}
	tb.navigate(path(j))
	tb.until(`document.querySelectorAll("#output figure").length === 2`)
	tb.until(`document.querySelector("#output iframe") !== null`)
	tb.until(`[...document.querySelectorAll("#output img")].every(e => e.complete && e.naturalWidth === 10)`)
	tb.until(`[...document.querySelectorAll("#output a:not([download])")].length === 0`)
	calm()
	tb.answer("done")
	jobstest.End(t, j)
	tb.shows(".facts", "new files")
	tb.shows(".facts dd", "<img")
	calm()
	tb.navigate("/sessions/lab")
	tb.shows("td", "<img")
	calm()
}

// The page's policy holds for its own scripts: text can't become a script, and no other site is reached.
func TestPolicyOfThePage(t *testing.T) {
	b := newBench(t)
	tb := b.open("/")
	tb.expect("Content Security Policy", "TrustedHTML", "Trusted")
	for name, try := range map[string]string{
		"HTML from text":   `try { document.body.innerHTML = "<b>x</b>"; "done" } catch (e) { e.name }`,
		"code from text":   `try { new Function("return 1")(); "done" } catch (e) { e.name }`,
		"a foreign script": `new Promise(r => { const s = document.createElement("script"); s.onload = () => r("done"); s.onerror = () => r("TypeError"); try { s.src = "data:text/javascript,1"; document.head.append(s) } catch (e) { r(e.name) } })`,
	} {
		if got := value[string](tb, try); got != "TypeError" && got != "EvalError" {
			t.Errorf("%s: %s", name, got)
		}
	}
}
