package resource

import (
	"testing"
	"time"
)

// An address names a job, its output or a display; anything else is a mistake that says what there
// is.
func TestAddressesAreRead(t *testing.T) {
	for uri, want := range map[string]Request{
		"job://ABC":                            {ID: "ABC"},
		"job://abc/":                           {ID: "ABC"},
		"job://ABC/output":                     {ID: "ABC", output: true},
		"job://ABC/output/?cursor=0":           {ID: "ABC", output: true},
		"job://ABC/output?view=raw&cursor=17":  {ID: "ABC", output: true, cursor: 17, view: "raw"},
		"job://ABC/output?cursor=17&view=text": {ID: "ABC", output: true, cursor: 17, view: "text"},
		"job://ABC/output?cursor=2&wait=110":   {ID: "ABC", output: true, cursor: 2, wait: 110 * time.Second},
		"job://ABC/output?view=screen":         {ID: "ABC", output: true, view: "screen"},
		"job://ABC/display/1":                  {ID: "ABC", display: 1},
		"job://ABC/display/12/":                {ID: "ABC", display: 12},
	} {
		want.uri = uri
		if got, err := Parse(uri); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", uri, got, err, want)
		}
	}
	for uri, want := range map[string]string{
		"":                                      "No such resource: . " + resourcesAre,
		"job:ABC":                               "No such resource: job:ABC. " + resourcesAre,
		"job:///output":                         "No such resource: job:///output. " + resourcesAre,
		"http://ABC":                            "No such resource: http://ABC. " + resourcesAre,
		"job://%zz":                             "No such resource: job://%zz. " + resourcesAre,
		"job://me@ABC":                          "No such resource: job://me@ABC. " + resourcesAre,
		"job://ABC#output":                      "No such resource: job://ABC#output. " + resourcesAre,
		"job://ABC/outputs":                     "No such resource: job://ABC/outputs. " + resourcesAre,
		"job://ABC/display":                     "No such resource: job://ABC/display. " + resourcesAre,
		"job://ABC/display/0":                   "No such resource: job://ABC/display/0. " + resourcesAre,
		"job://ABC/display/x":                   "No such resource: job://ABC/display/x. " + resourcesAre,
		"job://ABC/output?%zz":                  "The query of job://ABC/output?%zz can't be read. " + resourcesAre,
		"job://ABC/output?limit=1":              "Unknown parameter of a resource: limit. " + resourcesAre,
		"job://ABC?view=raw":                    "Unknown parameter of a resource: view. " + resourcesAre,
		"job://ABC/display/1?view=raw":          "Unknown parameter of a resource: view. " + resourcesAre,
		"job://ABC/output?cursor=1&cursor=":     "cursor is given twice.",
		"job://ABC/output?cursor=-1":            "cursor must be a count of bytes, 0 or more: the next of an earlier read.",
		"job://ABC/output?cursor=x":             "cursor must be a count of bytes, 0 or more: the next of an earlier read.",
		"job://ABC/output?wait=111":             "wait must be a whole number of seconds, 0 to 110; read again to wait longer.",
		"job://ABC/output?wait=1.5":             "wait must be a whole number of seconds, 0 to 110; read again to wait longer.",
		"job://ABC/output?view=screen&wait=1":   "view=screen shows the screen as it is now, at no cursor. Leave cursor and wait out, or use view=text.",
		"job://ABC/output?view=pdf":             "view must be one of: text, screen, raw.",
		"job://ABC/output?view=screen&cursor=1": "view=screen shows the screen as it is now, at no cursor. Leave cursor and wait out, or use view=text.",
	} {
		if got, err := Parse(uri); err == nil || err.Error() != want {
			t.Errorf("%s: %+v, %v; want %s", uri, got, err, want)
		}
	}
}

// What is text, by its type, is returned as text, so that a program need not decode it.
func TestTypesOfText(t *testing.T) {
	for mime, want := range map[string]bool{
		"text/html": true, "text/plain; charset=utf-8": true, "image/svg+xml": true, "application/json": true,
		"application/vnd.plotly.v1+json; x=y": true, "image/png": false, "application/octet-stream; x=json": false,
	} {
		if got := isText(mime); got != want {
			t.Errorf("%s: %v", mime, got)
		}
	}
}
