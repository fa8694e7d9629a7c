package delivery_test

import (
	"errors"
	"testing"
	"time"

	"asyncrepl/internal/mcp/delivery"
)

// Room that is free is claimed, however short the patience is.
func TestFreeRoomNeedsNoPatience(t *testing.T) {
	room := delivery.NewRoom(100, time.Nanosecond)
	for range 100 {
		release, err := room.Claim(t.Context(), 60)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := room.Claim(t.Context(), 60); !errors.Is(err, delivery.ErrNoRoom) {
			t.Fatalf("claimed what is not free: %v", err)
		}
		release()
	}
}
