package display

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image/jpeg"
	"image/png"
	"mime"
	"slices"
	"strings"

	"asyncrepl/jobs"
)

// kindNames are the names of the pictures that clients can show, by their MIME types.
var kindNames = map[string]string{"image/png": "PNG", "image/jpeg": "JPEG", "image/gif": "GIF", "image/webp": "WebP"}

// Kind returns the MIME type of a PNG, JPEG, GIF or WebP by its first bytes, or "".
func Kind(head []byte) string {
	switch {
	case bytes.HasPrefix(head, []byte("\x89PNG\r\n\x1a\n")):
		return "image/png"
	case bytes.HasPrefix(head, []byte("\xff\xd8\xff")):
		return "image/jpeg"
	case bytes.HasPrefix(head, []byte("GIF87a")), bytes.HasPrefix(head, []byte("GIF89a")):
		return "image/gif"
	case bytes.HasPrefix(head, []byte("RIFF")) && len(head) >= 12 && string(head[8:12]) == "WEBP":
		return "image/webp"
	}
	return ""
}

// Flaw says why a picture of one of these kinds is not for a model, as its header and its size say,
// or returns "".
func Flaw(f Form) string {
	switch width, height := pixels(f); {
	case width <= 0 || height <= 0:
		return "it is no " + kindNames[f.MIME]
	case width > maxSide || height > maxSide:
		return fmt.Sprintf("more than %d pixels a side", maxSide)
	case len(f.Data) > MaxPicture:
		return fmt.Sprintf("more than %d MiB", MaxPicture>>20)
	}
	return ""
}

// pixels returns the size of a picture by its header, or 0 if the header is not valid.
func pixels(f Form) (width, height int) {
	switch f.MIME {
	case "image/png":
		c, _ := png.DecodeConfig(bytes.NewReader(f.Data)) // an error: the size is 0
		return c.Width, c.Height
	case "image/jpeg":
		c, _ := jpeg.DecodeConfig(bytes.NewReader(f.Data))
		return c.Width, c.Height
	case "image/gif":
		if Kind(f.Data) != f.MIME || len(f.Data) < 13 {
			return 0, 0
		}
		return int(binary.LittleEndian.Uint16(f.Data[6:])), int(binary.LittleEndian.Uint16(f.Data[8:]))
	case "image/webp":
		return pixelsOfWebP(f.Data)
	}
	return 0, 0
}

// pixelsOfWebP is pixels of a WebP. The first chunk is the picture (VP8 with loss, VP8L without),
// or the header of an extended file (VP8X):
// https://developers.google.com/speed/webp/docs/riff_container
func pixelsOfWebP(b []byte) (width, height int) {
	if Kind(b) != "image/webp" || len(b) < 25 {
		return 0, 0
	}
	switch chunk := string(b[12:16]); {
	case chunk == "VP8L" && b[20] == 0x2f:
		bits := binary.LittleEndian.Uint32(b[21:])
		return int(bits&0x3fff) + 1, int(bits>>14&0x3fff) + 1
	case len(b) < 30:
		return 0, 0
	case chunk == "VP8 " && string(b[23:26]) == "\x9d\x01\x2a":
		return int(binary.LittleEndian.Uint16(b[26:]) & 0x3fff), int(binary.LittleEndian.Uint16(b[28:]) & 0x3fff)
	case chunk == "VP8X":
		return int(binary.LittleEndian.Uint32(b[24:])&0xffffff) + 1, int(binary.LittleEndian.Uint32(b[26:])>>8) + 1
	}
	return 0, 0
}

// Showable reports whether a form that another engine has sent is a picture that a model can be shown. A client can
// refuse the whole conversation because of bytes that are none.
func Showable(f Form) bool {
	ok, _ := picture(f)
	return ok
}

// Type returns the MIME type of a form that another engine has sent, if it is one of those that the jobs here have: a
// picture, text, sound, a film, a PDF. Any other becomes that of bytes, which clients only save.
func Type(mimeType string) string {
	media := func(kind string) bool { return strings.HasPrefix(mimeType, kind) }
	known := Served(mimeType) != "" || slices.ContainsFunc([]string{"image/", "audio/", "video/", "application/pdf"}, media)
	if !known || !jobs.ValidType(mimeType) {
		return "application/octet-stream"
	}
	return mimeType
}

// Served returns the type by which a browser can be given a form of a type, or "" if it must only be saved:
// a picture, HTML, or plain text, as which other text is read.
func Served(mimeType string) string {
	base, _, err := mime.ParseMediaType(mimeType)
	_, isPicture := kindNames[base]
	switch {
	case err != nil:
		return ""
	case isPicture, base == "image/svg+xml":
		return base
	case base == "text/html":
		return base + "; charset=utf-8"
	case strings.HasPrefix(base, "text/"), strings.HasSuffix(base, "json"), strings.HasSuffix(base, "xml"):
		return "text/plain; charset=utf-8"
	}
	return ""
}
