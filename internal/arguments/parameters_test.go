package arguments

import "testing"

// Every model pays for the description of each parameter.
func TestParametersAreDescribedInFewWords(t *testing.T) {
	for name, p := range parameters {
		about, _ := p.schema["description"].(string)
		if n := len(about); n > 40 {
			t.Errorf("%s is described in %d characters", name, n)
		}
	}
}
