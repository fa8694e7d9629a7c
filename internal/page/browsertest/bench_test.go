//go:build unix

package browsertest

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"asyncrepl/jobs/jobstest"
)

// whenShown is a script that takes the milliseconds from the start of a navigation until the page has painted its
// list: one job, or the first 300 of 1,000 and the count of the others.
const whenShown = `
window.shown = new Promise(done => {
	const painted = () => requestAnimationFrame(() => setTimeout(() => done(performance.now())));
	const observer = new MutationObserver(() => {
		const rows = document.querySelectorAll("[data-job]").length;
		if (rows !== 1 && !(rows === 300 && document.querySelector("nav").textContent.includes("700 more jobs"))) return;
		observer.disconnect();
		painted();
	});
	observer.observe(document, { childList: true, subtree: true, characterData: true });
});`

// BenchmarkThousandJobs takes the time until the page shows 1,000 jobs and, in turn, as its floor, until it shows
// one. Aim: 500 ms more.
func BenchmarkThousandJobs(b *testing.B) {
	one, thousand := newBench(b), newBench(b)
	for i := range 1000 {
		jobstest.End(b, thousand.job(fmt.Sprintf("job number-%d", i), func(context.Context) {}))
	}
	jobstest.End(b, one.job("job number-0", func(context.Context) {}))
	tb := one.tab(1280, 800)
	tb.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: whenShown})
		return err
	}))
	shown := func(of *bench) float64 {
		tb.address = of.address
		tb.navigate("/")
		return value[float64](tb, "shown")
	}
	shown(one) // the browser gets the files of each server once
	shown(thousand)
	var floor, took []float64
	for b.Loop() {
		for range 10 {
			floor, took = append(floor, shown(one)), append(took, shown(thousand))
		}
	}
	slices.Sort(floor)
	slices.Sort(took)
	for name, at := range map[string]int{"quarter": len(took) / 4, "median": len(took) / 2} {
		b.ReportMetric(floor[at], "ms-one-"+name)
		b.ReportMetric(took[at]-floor[at], "ms-more-"+name)
	}
}
