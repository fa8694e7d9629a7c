package display_test

import (
	"testing"

	"asyncrepl/jobs/display"
)

// What another engine has sent is given a type of those that jobs here have, or is only saved.
func TestTypeOfAnotherEngine(t *testing.T) {
	const saved = "application/octet-stream"
	for sent, want := range map[string]string{
		"image/png": "image/png", "image/svg+xml": "image/svg+xml", "text/html": "text/html", "text/latex": "text/latex",
		"application/json": "application/json", "application/vnd.plotly.v1+json": "application/vnd.plotly.v1+json",
		"application/pdf": "application/pdf", "audio/ogg": "audio/ogg", "video/mp4": "video/mp4",
		"": saved, "text": saved, "text/html\r\nX: y": saved, "application/x-sh": saved, "image/\u00e9": saved,
	} {
		if got := display.Type(sent); got != want {
			t.Errorf("%q becomes %q, and should be %q", sent, got, want)
		}
	}
}

func TestShowable(t *testing.T) {
	png := []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89")
	for _, c := range []struct {
		form display.Form
		want bool
	}{
		{display.Form{MIME: "image/png", Data: png}, true},
		{display.Form{MIME: "image/jpeg", Data: png}, false},
		{display.Form{MIME: "image/png", Data: png[:20]}, false},
		{display.Form{MIME: "image/png", Data: append(png, make([]byte, display.MaxPicture)...)}, false},
		{display.Form{MIME: "text/html", Data: png}, false},
	} {
		if got := display.Showable(c.form); got != c.want {
			t.Errorf("%s of %d bytes: %v", c.form.MIME, len(c.form.Data), got)
		}
	}
}
