package sockdiag_test

import (
	"testing"

	"asyncrepl/internal/kernel/sockdiag"
)

func TestAddress(t *testing.T) {
	v6 := make([]byte, 28)
	v6[0], v6[2], v6[3], v6[23] = 10, 0x1f, 0x90, 1
	mapped := append([]byte(nil), v6...)
	copy(mapped[18:], []byte{255, 255, 10, 0, 0, 5})
	for want, b := range map[string][]byte{
		"10.0.0.5:443":  {2, 0, 1, 187, 10, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0},
		"[::1]:8080":    v6,
		"10.0.0.5:8080": mapped,
		"":              {1, 0, 'p', 'a', 't', 'h', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
	} {
		if got := sockdiag.Address(b); got != want {
			t.Errorf("%v is %q, not %q", b, got, want)
		}
		if got := sockdiag.Address(b[:8]); got != "" {
			t.Errorf("half of %q is %q", want, got)
		}
	}
}
