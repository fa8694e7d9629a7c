package view

import (
	"fmt"
	"strings"
	"testing"
)

// A read that begins inside a bar shows the bar's last state, whole, wherever it begins. Other text
// begins where the read does.
func TestReadBeginsInsideABar(t *testing.T) {
	var tqdm, spinner, docker strings.Builder
	for i := range 30 {
		fmt.Fprintf(&tqdm, "\r%3d%%|####      | %d/30", i*100/30, i)
		fmt.Fprintf(&docker, "\x1b[2A\x1b[2K\ra: %d\r\n\x1b[2K\rb: %d\r\n", i, i)
		spinner.WriteString("\b" + `-\|/`[i%4:i%4+1])
	}
	for name, tt := range map[string]struct{ before, drawn, after, want string }{
		"bar":     {"start\r\n", tqdm.String(), "\r100%|##########| 30/30\r\nend", "100%|##########| 30/30\nend"},
		"unended": {"start\r\n", tqdm.String(), "", " 96%|####      | 29/30"},
		"spinner": {"start\r\nworking: x", spinner.String(), "\bdone\r\n", "working: done\n"},
		"several": {"start\r\na\r\nb\r\n", docker.String(), "end", "b: 29\nend"}, // the row above can be one that was read before
	} {
		t.Run(name, func(t *testing.T) {
			all := tt.before + tt.drawn + tt.after
			for at := len(tt.before) + 1; at < len(tt.before)+len(tt.drawn); at++ {
				data := one(int64(at), all[at:]).After(one(0, all[:at]))
				if got := Clip(data, Stretch{}, Budget{Head: 1000, Max: 1000}).Sections[0].Head; !strings.HasSuffix(got, tt.want) || name != "several" && got != tt.want {
					t.Fatalf("from %d on: %q, want %q", at, got, tt.want)
				}
			}
		})
	}
	for in, want := range map[string]string{"plain |text\r\n": "text\n", "Proceed? |y\r\nyes": "y\nyes", "bar\r\n|text": "text", "50%\r|60%": "60%", "\x1b[1mPa|ss\x1b[m\x1b[K\r\n": "ss\n"} {
		at := strings.IndexByte(in, '|')
		data := one(int64(at), in[at+1:]).After(one(0, in[:at]))
		if got := Clip(data, Stretch{}, Budget{Head: 1000, Max: 1000}).Sections[0].Head; got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
