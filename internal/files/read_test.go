package files

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"asyncrepl/internal/test/needtest"
)

func TestReadOfAPart(t *testing.T) {
	d, path := workspace(t)
	put(t, filepath.Join(path, "file"), "0123456789", 0o644)
	for name, tt := range map[string]struct {
		offset, n int64
		want      string
	}{
		"all": {0, 100, "0123456789"}, "begin": {0, 3, "012"}, "middle": {3, 4, "3456"}, "end": {8, 100, "89"},
		"at the end": {10, 5, ""}, "beyond": {11, 5, ""}, "nothing": {3, 0, ""},
	} {
		part, err := d.Read("file", tt.offset, tt.n)
		if err != nil || string(part.Data) != tt.want || part.Size != 10 || part.From != tt.offset || part.Next() != tt.offset+int64(len(tt.want)) {
			t.Errorf("%s: %+v, %v", name, part, err)
		}
	}
}

// A file is read in parts of any size: no character is split, lost or doubled.
func TestTextEndsBetweenCharacters(t *testing.T) {
	d, path := workspace(t)
	text := strings.Repeat("aé€𝄞\n", 20)
	put(t, filepath.Join(path, "file"), text, 0o644)
	for n := int64(4); n < 20; n++ {
		var got strings.Builder
		for offset := int64(0); offset < int64(len(text)); {
			part, err := d.Read("file", offset, n)
			if err != nil || !part.Text() || part.From != offset || part.Next() == offset {
				t.Fatalf("%d bytes from %d: %+v, %v", n, offset, part, err)
			}
			got.Write(part.Data)
			offset = part.Next()
		}
		if got.String() != text {
			t.Errorf("parts of %d bytes: %q", n, got.String())
		}
	}
	part, err := d.Read("file", 2, 4) // in the middle of é
	if err != nil || !part.Text() || string(part.Data) != "€" || part.From != 3 || part.Next() != 6 {
		t.Errorf("%+v, %v", part, err)
	}
	part.Data = []byte("aé€𝄞")
	if part.Cut(3); string(part.Data) != "aé€" {
		t.Errorf("cut: %q", part.Data)
	}
}

func TestWhatIsNoText(t *testing.T) {
	d, path := workspace(t)
	for content, want := range map[string]bool{
		"": true, "a\x00b": true, "caf\xc3\xa9": true,
		"caf\xe9 cr\xe8me\n": true, "caf\xc3": true, "\xa9caf": true, "ab\xc3(": true, "\xe9\xe8\x1b[0m tr\xe8s": true,
		"\xff": false, "a\x00b\xff": false, "\x80\x80\x80\x80": false, "abcdef\xff\x01\x02\x03": false,
	} {
		put(t, filepath.Join(path, "file"), content, 0o644)
		part, err := d.Read("file", 0, 100)
		if err != nil || part.Text() != want || string(part.Data) != content {
			t.Errorf("%q: %+v, %v", content, part, err)
		}
	}
}

// A Latin-1 file is read in parts of any size: no byte is lost or doubled.
func TestDamagedTextIsReadInParts(t *testing.T) {
	d, path := workspace(t)
	text := strings.Repeat("d\xe9j\xe0 vu\xa0: 5 \xb0C, na\xefve\n", 20)
	put(t, filepath.Join(path, "file"), text, 0o644)
	for n := int64(5); n < 20; n++ {
		var got strings.Builder
		for offset := int64(0); offset < int64(len(text)); {
			part, err := d.Read("file", offset, n)
			if err != nil {
				t.Fatal(err)
			}
			part.Text() // it may say no if there are only a few bytes
			if part.Cut(int(n)); part.From != offset || part.Next() == offset {
				t.Fatalf("%d bytes from %d: %+v", n, offset, part)
			}
			got.Write(part.Data)
			offset = part.Next()
		}
		if got.String() != text {
			t.Errorf("parts of %d bytes: %q", n, got.String())
		}
	}
}

func TestReadOfALargeFile(t *testing.T) {
	d, path := workspace(t)
	file := filepath.Join(path, "file")
	put(t, file, "", 0o644)
	needtest.Unless(t, "no file can be so large", os.Truncate(file, 10<<30), syscall.EFBIG)
	part, err := d.Read("file", 5<<30, 100)
	if err != nil || string(part.Data) != strings.Repeat("\x00", 100) || part.Size != 10<<30 {
		t.Errorf("%d bytes, %v", len(part.Data), err)
	}
}
