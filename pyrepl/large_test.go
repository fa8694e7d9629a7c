package pyrepl_test

import (
	"errors"
	"strings"
	"testing"

	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
	"asyncrepl/pyrepl"
)

// Events arrive however long the names, prompts, types and values of the user's code are.
func TestLoadLargeNames(t *testing.T) {
	if testing.Short() {
		t.Skip("large")
	}
	t.Parallel()
	b := newBench(t)
	for _, code := range []string{
		"globals()['x' * 17_000_000] = globals()['x' * 200] = globals()['x' * 201] = 1",
		"T = type('t' * 17_000_000, (), {}); t = T()",
		"raise type('e' * 17_000_000, (Exception,), {'__module__': 'm' * 17_000_000})",
		"class S(str): __getitem__ = __iter__ = __len__ = __str__ = None\nT.__name__ = S('subclass')",
		"for i in range(20_000): globals()[chr(0x20000) * 195 + str(i)] = i\nchr(0x1f600) * (2 << 20)", // no event is longer
	} {
		if record, out := b.run(code); record.Status != jobs.Completed && !strings.HasPrefix(record.Receipt.Text(), "failed (mmm") {
			t.Errorf("%.100q: %.500s; output %.500q", code, record.Receipt.Text(), out)
		} else if strings.HasSuffix(code, "<< 20)") && !strings.HasPrefix(record.Result, "'\U0001f600\U0001f600") {
			t.Errorf("result %.100q", record.Result)
		}
	}
	var v pyrepl.Variables
	polltest.Check(t, func() (err error) { // a busy machine can take longer than the second that a listing waits
		if v, err = b.s.Variables(t.Context(), ""); err == nil && v.Silent {
			err = errors.New("the worker does not answer within a second")
		}
		return err
	})
	names, types := make(map[string]bool), make(map[string]string)
	for _, one := range v.Vars {
		names[one.Name], types[one.Name] = true, one.Type
	}
	for _, want := range []string{strings.Repeat("x", 200), strings.Repeat("x", 200) + "… (201 characters)", strings.Repeat("x", 200) + "… (17000000 characters)"} {
		if !names[want] {
			t.Errorf("%q is not listed", want)
		}
	}
	if types["t"] != "subclass" {
		t.Errorf("the type is %.300q", types["t"])
	}
	j := b.start("input()")
	jobstest.Asks(t, j)
	if v, err := b.s.Variables(t.Context(), ""); err != nil || len(v.Vars) < 1000 {
		t.Errorf("%d variables of a busy session, %v", len(v.Vars), err)
	}
}

func TestLargePrompts(t *testing.T) {
	if testing.Short() {
		t.Skip("large")
	}
	t.Parallel()
	b := newBench(t)
	for code, want := range map[string]string{
		"input('x' * 17_000_000 + '? ')":                                                                        strings.Repeat("x", 4094) + "? ",
		"import getpass; getpass.getpass('y' * 17_000_000 + '? ')":                                              strings.Repeat("y", 4094) + "? ",
		"class S(str):\n    def __str__(self): return self\n    __getitem__ = __iter__ = None\ninput(S('s? '))": "s? ",
	} {
		b.answer(code, want, "me", "'me'")
	}
}
