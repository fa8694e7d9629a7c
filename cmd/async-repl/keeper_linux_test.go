package main

import "testing"

func TestEngineIsAProcessOfItsOwn(t *testing.T) {
	for name, args := range map[string][]string{"default": nil, "on": {"-keeper", "on"}} {
		s, err := parseSettings(args, func(string) string { return "" }, "/here", false)
		if err != nil || !s.keeps {
			t.Errorf("%s: an engine of its own is %v, %v", name, s.keeps, err)
		}
	}
}
