//go:build unix

package demo

import (
	"maps"
	"reflect"
	"strings"
	"testing"
)

const (
	first  = "01AAAAAAAAAAAAAAAAAAAAAAAA" // in scripts
	second = "01BBBBBBBBBBBBBBBBBBBBBBBB"
	real1  = "01M87CE1D8097CHWY7Q9K9BF80" // in replies
	real2  = "01M87CDZD2AHGA083CCYB4A4JW"
)

func TestMatch(t *testing.T) {
	const reply = "Job ID: " + real1 + "\nStatus: completed\nElapsed: 0.02s\n\n--- STDOUT ---\nPassword: \nb (c)\nd\n"
	for name, test := range map[string]struct {
		want, reply string
		err         string // part of the error; "": none
	}{
		"all of it":        {"Job ID: …\nStatus: completed\nElapsed: 0.02s\n\n--- STDOUT ---\nPassword:\nb (c)\nd", reply, ""},
		"a part of head":   {"Status: completed\n\n--- STDOUT ---\nPassword:\nb (c)\nd", reply, ""},
		"left out":         {"Status: completed\n\n--- STDOUT ---\n…\nd", reply, ""},
		"the rest":         {"Status: completed\n…", reply, ""},
		"in a line":        {"Status: completed\nElapsed: …s\n…\nb (…)\n…", reply, ""},
		"another status":   {"Status: failed\n…", reply, "Status: failed"},
		"half a status":    {"Status: complete\n…", reply, "Status: complete"},
		"another order":    {"Elapsed: …\nStatus: completed\n…", reply, "Status: completed"},
		"more than wanted": {"Status: completed", reply, "more than is expected"},
		"more at the end":  {"Status: completed\n\n--- STDOUT ---\nPassword:\nb (c)", reply, "more than is expected"},
		"a line more":      {"Status: completed\n\n--- STDOUT ---\nb (c)\nd", reply, "b (c)"},
		"a line too few":   {"Status: completed\n\n--- STDOUT ---\nPassword:\nb (c)\nc\nd", reply, `"c"`},
		"nothing":          {"No jobs yet.", "", "No jobs yet."},
		"two of one job":   {first + "\n" + first, real1 + "\n" + real1, ""},
		"two for one":      {first + "\n" + first, real1 + "\n" + real2, "not one"},
	} {
		t.Run(name, func(t *testing.T) {
			err := make(ids).match(strings.Split(test.want, "\n"), test.reply)
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("error %v, want %q", err, test.err)
			}
		})
	}
}

func TestJobIDsOfARun(t *testing.T) {
	run := make(ids)
	if err := run.match([]string{first + " and " + second}, real1+" and "+real2); err != nil {
		t.Fatal(err)
	}
	if want := (ids{first: real1, second: real2}); !maps.Equal(run, want) {
		t.Errorf("%v, want %v", run, want)
	}
	if got := run.in("cancel " + second); got != "cancel "+real2 {
		t.Error(got)
	}
	if err := run.match([]string{"job " + first}, "job "+real2); err == nil {
		t.Error("another job matches")
	}
}

func TestParse(t *testing.T) {
	steps, err := parse(`
# one
needs command -v less
show README.md session
> run
  code: if x:
        y

    z
  wait_seconds: 0.5
  keys: ["q", "enter"]
< Status: completed

  RESULT

as bob, by the protocol of 2025
> look

# two
engine
> see
< nothing
client is killed
> see
client quits
> see
> see

# three
sandbox workspace
> see
sandbox none
> see

# four
places
> see
`)
	want := []step{
		{"one", "command -v less", false, false, []call{
			{"", "", "", "README.md session", []string{"run", "code: if x:", "      y", "", "  z", "wait_seconds: 0.5", `keys: ["q", "enter"]`}, []string{"Status: completed", "", "RESULT"}},
			{"bob, by the protocol of 2025", "", "", "", []string{"look"}, nil},
		}},
		{"two", "", true, false, []call{
			{"", "", "", "", []string{"see"}, []string{"nothing"}},
			{"", "", killed, "", []string{"see"}, nil}, {"", "", quits, "", []string{"see"}, nil}, {"", "", "", "", []string{"see"}, nil},
		}},
		{"three", "", false, true, []call{{"", "REPL_SANDBOX=workspace", "", "", []string{"see"}, nil}, {"", "REPL_SANDBOX=none", "", "", []string{"see"}, nil}}},
		{"four", "", false, false, []call{{"", withPlaces, "", "", []string{"see"}, nil}}},
	}
	if err != nil || !reflect.DeepEqual(steps, want) {
		t.Fatalf("%v\n got %v\nwant %v", err, steps, want)
	}
	args := map[string]any{"code": "if x:\n    y\n\nz", "wait_seconds": 0.5, "keys": []any{"q", "enter"}}
	if got := arguments(steps[0].calls[0].lines[1:]); !reflect.DeepEqual(got, args) {
		t.Errorf("arguments %q, want %q", got, args)
	}
	for _, script := range []string{"> run", "# one\nshwo README.md session", "# one\n< reply"} {
		if steps, err := parse(script); err == nil {
			t.Errorf("%q is read as %v", script, steps)
		}
	}
}
