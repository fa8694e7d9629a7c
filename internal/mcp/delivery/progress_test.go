package delivery

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A token that could not be sent back unchanged gets no progress.
func TestTokenComesBackUnchanged(t *testing.T) {
	for raw, want := range map[string]any{
		`"a\nb"`: "a\nb", `""`: "", `7`: int64(7), `-7`: int64(-7), `0`: int64(0), `9007199254740991`: int64(9007199254740991),
		`9007199254740993`: nil, `1.5`: nil, `null`: nil, `{}`: nil, `true`: nil,
	} {
		req := &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{}}
		if err := json.Unmarshal([]byte(`{"_meta":{"progressToken":`+raw+`}}`), req.Params); err != nil {
			t.Fatal(err)
		}
		var got any
		if p := NewProgress(req, 0); p != nil {
			got = p.token
		}
		if got != want {
			t.Errorf("token %s came back as %#v, want %#v", raw, got, want)
		}
	}
}

// Progress increases with each notification, as the protocol demands, whatever the bar does, and the
// share is that of the bar.
func TestProgressIncreases(t *testing.T) {
	last := 0.0
	for i, tt := range []struct {
		done, total     float64
		waited          time.Duration
		progress, share float64 // 0: any
	}{
		{0, 0, time.Second, 1, 0},
		{0, 100, 3 * time.Second, 3, 0},
		{4300, 10_000, 5 * time.Second, 4300, 0.43},
		{4300, 10_000, 7 * time.Second, 0, 0.43},
		{9000, 10_000, 9 * time.Second, 9000, 0.9},
		{1, 10, 11 * time.Second, 0, 0.1}, // another bar
		{10, 10, 13 * time.Second, 0, 1},
		{0, 0, 15 * time.Second, 0, 0},
		{99_999, 100_000, 17 * time.Second, 99_999, 0.99999},
	} {
		progress, total := after(last, tt.waited, Note{Done: tt.done, Total: tt.total})
		if progress <= last || tt.progress != 0 && progress != tt.progress {
			t.Errorf("%d: progress %g after %g", i, progress, last)
		}
		if tt.share == 0 && total != 0 || tt.share != 0 && math.Abs(progress/total-tt.share) > 1e-9 {
			t.Errorf("%d: %g of %g, want a share of %g", i, progress, total, tt.share)
		}
		if tt.progress == tt.done && tt.share != 0 && total != tt.total {
			t.Errorf("%d: the total is %g", i, total)
		}
		last = progress
	}
}
