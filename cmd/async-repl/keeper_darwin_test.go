package main

import (
	"strings"
	"testing"
)

func TestServerIsOneProcess(t *testing.T) {
	s, err := parseSettings(nil, func(string) string { return "" }, "/here", false)
	if err != nil || s.keeps {
		t.Errorf("an engine of its own by default is %v, %v", s.keeps, err)
	}
	_, err = parseSettings([]string{"-keeper", "on"}, func(string) string { return "" }, "/here", false)
	if err == nil || !strings.Contains(err.Error(), "allowed: only off") {
		t.Errorf("an engine of its own: %v", err)
	}
}
