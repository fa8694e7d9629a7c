package display

import "bytes"

// Kind returns the MIME type of a PNG or JPEG by its first bytes, or "".
func Kind(head []byte) string {
	switch {
	case bytes.HasPrefix(head, []byte("\x89PNG\r\n\x1a\n")):
		return "image/png"
	case bytes.HasPrefix(head, []byte("\xff\xd8\xff")):
		return "image/jpeg"
	}
	return ""
}

// Flaw says why a PNG or JPEG is not for a model, as its header and its size say, or returns "".
func Flaw(f Form) string {
	_, flaw := picture(f)
	return flaw
}
