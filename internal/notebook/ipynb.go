package notebook

import (
	"bytes"
	"encoding/base64"
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
		Origin   origin            `json:"async_repl"`
		Kernel   map[string]string `json:"kernelspec"`
		Language map[string]string `json:"language_info"`
	}

	origin struct {
		Session string `json:"session"`
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

// lines is a text that is written as a list of its lines, so that a diff of two files shows lines.
type lines string

// MarshalJSON implements json.Marshaler.
func (l lines) MarshalJSON() ([]byte, error) {
	list := []string{}
	for line := range strings.Lines(string(l)) {
		list = append(list, line)
	}
	return encode(list, "")
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
			Origin:   origin{Session: n.Session},
			Kernel:   map[string]string{"display_name": "Python 3", "language": "python", "name": "python3"},
			Language: map[string]string{"file_extension": ".py", "mimetype": "text/x-python", "name": "python"},
		},
		Format: 4, FormatMinor: 5,
	}
	for _, c := range n.Cells {
		if c.Text != "" {
			doc.Cells = append(doc.Cells, textCell{Type: "markdown", ID: c.ID, Source: lines(c.Text)})
		} else {
			doc.Cells = append(doc.Cells, c.ipynb())
		}
	}
	return encode(doc, " ")
}

func (c *Cell) ipynb() codeCell {
	cell := codeCell{Type: "code", ID: c.ID, Metadata: cellMark{Title: c.Title}, Outputs: []any{}, Source: lines(c.source())}
	if c.Raises != "" && c.Comment == "" {
		// With this tag Jupyter runs the cells after an exception, too (jupyter/notebook#2549).
		cell.Metadata.Tags = []string{"raises-exception"}
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
