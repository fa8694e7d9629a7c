//go:build linux

package tty_test

import (
	"testing"

	"asyncrepl/internal/terminal/tty"
	"asyncrepl/internal/terminal/tty/ttytest"
)

// BenchmarkType measures the cost of typing a line. Its floor, bare, writes the line to the
// terminal and does nothing else.
func BenchmarkType(b *testing.B) {
	line := "print(1)\n"
	start := func(b *testing.B) *ttytest.Program {
		p := ttytest.Start(b, []string{"sh", "-c", `stty -echo; echo ready; exec cat >/dev/null`})
		p.WaitPrinted(b, "ready")
		return p
	}
	b.Run("bare", func(b *testing.B) {
		p := start(b)
		for b.Loop() {
			if _, err := p.PTY.Master().WriteString(line); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("type", func(b *testing.B) {
		p := start(b)
		k := tty.NewTypist(tty.NewKeyboard(p.PTY, p.List), tty.UsualPace)
		for b.Loop() {
			if _, err := k.Type(b.Context(), tty.Strokes{Text: line}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
