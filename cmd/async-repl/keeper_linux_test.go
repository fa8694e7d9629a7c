package main

import "testing"

func TestKeeperCanBeSet(t *testing.T) {
	s, err := parseSettings([]string{"-keeper", "on"}, func(string) string { return "" }, "/here", false)
	if err != nil || !s.keeps {
		t.Errorf("an engine of its own is %v, %v", s.keeps, err)
	}
}
