package pyrepl_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/jobs"
)

// An exception that ends a job is in its receipt as data.
func TestExceptionIsInTheReceipt(t *testing.T) {
	b := newBench(t)
	record, _ := b.want("try:\n    {}['k']\nexcept KeyError as e:\n    raise ValueError('no') from e", "failed (ValueError: no)")
	frame := func(line int, source string) []jobs.Frame {
		return []jobs.Frame{{File: "<job " + record.ID + ">", Line: line, Function: "<module>", Source: source}}
	}
	want := &jobs.Exception{Type: "ValueError", Message: "no", Frames: frame(4, "raise ValueError('no') from e"),
		Causes: []jobs.Exception{{Relation: "cause", Type: "KeyError", Message: "'k'", Frames: frame(2, "{}['k']")}}}
	if d := cmp.Diff(want, record.Receipt.Exception); d != "" {
		t.Error(d)
	}
	record, _ = b.want("x = 1\ny = (1 +* 2)", "failed (SyntaxError: invalid syntax)")
	if x := record.Receipt.Exception; x == nil || x.Position == nil || x.Position.Line != 2 || x.Position.Column != 9 || x.Position.Source != "y = (1 +* 2)" {
		t.Errorf("%+v", x)
	}
	for _, code := range []string{"1", "import sys; sys.exit(1)"} {
		if record, _ := b.run(code); record.Receipt.Exception != nil {
			t.Errorf("%s: %+v", code, record.Receipt.Exception)
		}
	}
}

// A forged exception is bounded too.
func TestForgedExceptionsAreBounded(t *testing.T) {
	inFull(t)
	b := forging(t)
	for fields, kept := range map[string]bool{
		"dict(type='E', message='m')":                          true,
		"dict(type='E', message='m' * 200000)":                 false,
		"dict(type='E', message='m', frames=[{}] * 100000)":    false,
		"dict(message='m')":                                    false,
		"dict(type='E', frames=5)":                             false,
		"[1]":                                                  false,
		"dict(type='E', message='m', position={'line': 1e99})": false,
	} {
		record, _ := b.run("send(line([], event='done', end='raised', error='E: m', exception=" + fields + "))")
		if got := record.Receipt.Exception; (got != nil) != kept || got != nil && (got.Type != "E" || got.Message != "m") || !strings.HasPrefix(record.Receipt.Text(), "failed (E: m") {
			t.Errorf("%s: %+v, %s", fields, got, record.Receipt.Text())
		}
	}
}
