package notebook

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
)

// The types of the format have their fields in the order in which Jupyter writes them.
// https://nbformat.readthedocs.io/en/latest/format_description.html
type (
	document struct {
		Cells       []any    `json:"cells"`
		Metadata    metadata `json:"metadata"`
		Format      int      `json:"nbformat"`
		FormatMinor int      `json:"nbformat_minor"`
	}

	metadata struct {
		Mark     markOf            `json:"async_repl"`
		Kernel   map[string]string `json:"kernelspec"`
		Language map[string]string `json:"language_info"`
	}

	codeCell struct {
		Type     string   `json:"cell_type"`
		Count    *int     `json:"execution_count"`
		ID       string   `json:"id"`
		Metadata cellMark `json:"metadata"`
		Outputs  []any    `json:"outputs"`
		Source   lines    `json:"source"`
	}

	cellMark struct {
		Title string   `json:"async_repl,omitempty"`
		Tags  []string `json:"tags,omitempty"`
	}

	textCell struct {
		Type     string   `json:"cell_type"`
		ID       string   `json:"id"`
		Metadata struct{} `json:"metadata"`
		Source   lines    `json:"source"`
	}

	streamOutput struct {
		Name string `json:"name"`
		Type string `json:"output_type"`
		Text lines  `json:"text"`
	}

	errorOutput struct {
		Name      string   `json:"ename"`
		Message   string   `json:"evalue"`
		Type      string   `json:"output_type"`
		Traceback []string `json:"traceback"`
	}

	displayOutput struct {
		Data     map[string]any `json:"data"`
		Metadata struct{}       `json:"metadata"`
		Type     string         `json:"output_type"`
	}

	resultOutput struct {
		Data     map[string]any `json:"data"`
		Count    *int           `json:"execution_count"`
		Metadata struct{}       `json:"metadata"`
		Type     string         `json:"output_type"`
	}
)

// A markOf is what a notebook says about its origin.
type markOf struct {
	Session string `json:"session"`
	Code    string `json:"sources_sha256"` // of the sources of all cells, to see changes
}

// lines is a text that travels as a list of its lines, so that files differ by lines.
type lines string

// MarshalJSON implements json.Marshaler.
func (l lines) MarshalJSON() ([]byte, error) {
	list := []string{}
	for line := range strings.Lines(string(l)) {
		list = append(list, line)
	}
	return encode(list, "")
}

// UnmarshalJSON implements json.Unmarshaler. A program can have written one text.
func (l *lines) UnmarshalJSON(b []byte) error {
	var list []string
	if json.Unmarshal(b, &list) == nil {
		*l = lines(strings.Join(list, ""))
		return nil
	}
	return json.Unmarshal(b, (*string)(l))
}

// encode returns v as JSON that leaves <, > and & as they are.
func encode(v any, indent string) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	err := e.Encode(v)
	return b.Bytes(), err
}

// ipynb returns the notebook as Jupyter reads it.
func (n *Notebook) ipynb() ([]byte, error) {
	doc := document{
		Cells: []any{},
		Metadata: metadata{
			Mark:     markOf{Session: n.Session},
			Kernel:   map[string]string{"display_name": "Python 3", "language": "python", "name": "python3"},
			Language: map[string]string{"file_extension": ".py", "mimetype": "text/x-python", "name": "python"},
		},
		Format: 4, FormatMinor: 5,
	}
	var sources []string
	for _, c := range n.Cells {
		if c.Text != "" {
			doc.Cells = append(doc.Cells, textCell{Type: "markdown", ID: c.ID, Source: lines(c.Text)})
			sources = append(sources, c.Text)
			continue
		}
		doc.Cells = append(doc.Cells, c.ipynb())
		sources = append(sources, c.source())
	}
	doc.Metadata.Mark.Code = hashOf(sources)
	return encode(doc, " ")
}

func (c *Cell) ipynb() codeCell {
	cell := codeCell{Type: "code", ID: c.ID, Metadata: cellMark{Title: c.Title}, Outputs: []any{}, Source: lines(c.source())}
	if c.Raises != "" && c.Comment == "" {
		cell.Metadata.Tags = []string{"raises-exception"} // what runs a notebook continues then
	}
	if c.Count > 0 {
		cell.Count = &c.Count
	}
	for _, o := range c.Outputs {
		cell.Outputs = append(cell.Outputs, o.ipynb(cell.Count))
	}
	return cell
}

func (o *Output) ipynb(count *int) any {
	switch {
	case o.Name != "":
		return errorOutput{Name: o.Name, Message: o.Text, Type: "error", Traceback: append([]string{}, o.Traceback...)}
	case o.Stream != "":
		return streamOutput{Name: o.Stream, Type: "stream", Text: lines(o.Text)}
	}
	data := map[string]any{}
	for _, item := range o.Items {
		data[item.MIME] = item.ipynb()
	}
	if o.Result {
		return resultOutput{Data: data, Count: count, Type: "execute_result"}
	}
	return displayOutput{Data: data, Type: "display_data"}
}

// ipynb returns the data: JSON as it is, text in lines, all else in base64.
func (i *Item) ipynb() any {
	switch {
	case strings.HasSuffix(i.MIME, "json") && json.Valid(i.Data):
		return json.RawMessage(i.Data)
	case strings.HasPrefix(i.MIME, "text/"), i.MIME == "image/svg+xml", strings.HasSuffix(i.MIME, "json"):
		return lines(i.Data)
	}
	return base64.StdEncoding.EncodeToString(i.Data)
}

// hashOf returns a hash of the sources of all cells.
func hashOf(sources []string) string {
	b, _ := encode(sources, "") // texts can always be encoded
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// changedIPYNB reports whether the code of the notebook in b has changed since Save wrote it. It
// returns ErrForeign if Save did not write it.
func changedIPYNB(b []byte) (bool, error) {
	var doc struct {
		Cells []struct {
			Source lines `json:"source"`
		} `json:"cells"`
		Metadata struct {
			Mark *markOf `json:"async_repl"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(b, &doc); err != nil || doc.Metadata.Mark == nil {
		return false, ErrForeign
	}
	var sources []string
	for _, c := range doc.Cells {
		sources = append(sources, string(c.Source))
	}
	return hashOf(sources) != doc.Metadata.Mark.Code, nil
}
