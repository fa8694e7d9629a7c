package arguments

import "testing"

// Every model pays for the description of each parameter.
func TestParametersAreDescribedInFewWords(t *testing.T) {
	for name, p := range parameters {
		about, _ := p.schema["description"].(string)
		if n := len(about); n > 40 {
			t.Errorf("%s is described in %d characters", name, n)
		}
		_, one := p.schema["type"].(string)
		if _, some := p.schema["type"]; !some || !one && name != "value" { // which can be anything
			t.Errorf("%s has no type, which lets some clients decode strings, or several, which others refuse", name)
		}
	}
}
