package display

import (
	"encoding/hex"
	"testing"

	"asyncrepl/internal/test/must"
)

// heads are the first bytes of pictures of 321 by 123 pixels, as other programs have written them.
var heads = map[string]string{
	"image/gif":            "47494638376141017b00800000",
	"image/webp, VP8 ":     "5249464614520000574542505650382008520000b09d009d012a41017b00",
	"image/webp, lossless": "52494646f4930000574542505650384ce89300002f40811e00ff272448f0",
	"image/webp, extended": "52494646bc00000057454250565038580a000000180000004001007a0000",
}

func TestSizeIsThatOfTheHeader(t *testing.T) {
	for name, text := range heads {
		head := must.Get(hex.DecodeString(text))(t)
		f := Form{MIME: Kind(head), Data: head}
		if kind := f.MIME; kind != name[:len(kind)] || kind == "" {
			t.Errorf("%s: the kind is %q", name, kind)
		}
		if width, height := pixels(f); width != 321 || height != 123 {
			t.Errorf("%s: %d by %d pixels", name, width, height)
		}
		if flaw := Flaw(f); flaw != "" {
			t.Errorf("%s: %s", name, flaw)
		}
		f.Data = append(head, make([]byte, MaxPicture)...)
		if flaw := Flaw(f); flaw != "more than 1 MiB" {
			t.Errorf("%s of %d bytes: %q", name, len(f.Data), flaw)
		}
	}
}

// A header that ends early or is of another picture has no size, and is read no further than it goes.
func TestBrokenHeadersHaveNoSize(t *testing.T) {
	for name, text := range heads {
		head := must.Get(hex.DecodeString(text))(t)
		least := map[string]int{"image/gif": 13, "image/webp, lossless": 25}[name]
		if least == 0 {
			least = 30
		}
		kind := Kind(head)
		for n := range least {
			if Flaw(Form{kind, head[:n:n]}) == "" {
				t.Errorf("%s: %d bytes are enough", name, n)
			}
		}
		for other := range kindNames {
			if other != kind && Flaw(Form{other, head}) != "it is no "+kindNames[other] {
				t.Errorf("%s is a picture of the kind %s", name, other)
			}
		}
	}
	zero := Form{"image/gif", []byte("GIF89a\x00\x00\x01\x00\x00\x00\x00")}
	if flaw := Flaw(zero); flaw != "it is no GIF" {
		t.Errorf("a picture without a column: %q", flaw)
	}
}
