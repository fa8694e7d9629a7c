package main

import (
	"strings"
	"testing"
)

func TestKeeperIsRefused(t *testing.T) {
	_, err := parseSettings([]string{"-keeper", "on"}, func(string) string { return "" }, "/here", false)
	if err == nil || !strings.Contains(err.Error(), "allowed: only off") {
		t.Errorf("an engine of its own: %v", err)
	}
}
