package keys

import (
	"encoding/json"
	"errors"
)

// keyJSON is the JSON of a [Key]. One whose bytes depend on the modes of a terminal has its name, because the
// terminal can be on another machine; any other has its bytes.
type keyJSON struct {
	Name string `json:"name,omitempty"`
	Text string `json:"text,omitempty"`
}

// MarshalJSON writes the name of the key or the text that it types.
func (k Key) MarshalJSON() ([]byte, error) {
	if k.normal == k.application {
		return json.Marshal(keyJSON{Text: k.normal})
	}
	for _, named := range all {
		if same, _ := named.with(0); same == k {
			return json.Marshal(keyJSON{Name: named.name})
		}
	}
	return nil, errors.New("a key without a name depends on the modes of a terminal")
}

// UnmarshalJSON reads what MarshalJSON has written.
func (k *Key) UnmarshalJSON(b []byte) error {
	var j keyJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	if *k = Text(j.Text); j.Name == "" {
		return nil
	}
	named, ok := Parse(j.Name)
	if !ok {
		return errors.New("there is no key " + j.Name)
	}
	*k = named
	return nil
}
