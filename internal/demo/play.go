//go:build unix

package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"asyncrepl/internal/mcp/client"
)

// A player plays the steps of a script.
type player struct {
	ctx   context.Context
	out   io.Writer
	start func(setting string) (*client.Process, error) // starts a client over stdio; "": of the usual server
	stdio *client.Process                               // the last one that is not
	home  *home
	many  *manyServer
	ids   ids

	as    string         // the client over HTTP that the last call of the step came from; "": none did
	http  client.HTTP    // how it reaches the server
	other *client.Client // the client itself

	setting string          // of the server that the last call went to; "": the usual one
	there   *client.Process // the client of that server
}

// play plays the steps in order. Its error names those that failed.
func (p *player) play(steps []step) error {
	var failed []string
	for i, step := range steps {
		fmt.Fprintf(p.out, "\n── %d. %s\n", i+1, step.title)
		start := time.Now()
		if err := p.step(step); err != nil {
			failed = append(failed, fmt.Sprintf("step %d (%s): %v", i+1, step.title, err))
			fmt.Fprintf(p.out, "   ✗ %v\n", err)
			continue
		}
		fmt.Fprintf(p.out, "   ✓ passed (%d ms)\n", time.Since(start).Milliseconds())
	}
	if failed != nil {
		return errors.New(strings.Join(failed, "\n"))
	}
	fmt.Fprintf(p.out, "\nAll %d steps passed.\n", len(steps))
	return nil
}

func (p *player) step(s step) (err error) {
	p.as = ""
	defer func() { err = errors.Join(err, p.enter("")) }()
	if s.lasts {
		if why, err := p.endsWithClient(); why != "" || err != nil {
			if err == nil {
				fmt.Fprintf(p.out, "   left out: %s\n", why)
			}
			return err
		}
	}
	if s.needs != "" {
		r, err := p.stdio.Call(p.ctx, "execute_command_async", map[string]any{"command": s.needs, "wait_seconds": 60})
		if err != nil {
			return err
		}
		if r.Header("Status") != "completed" {
			fmt.Fprintf(p.out, "   nothing to show: it needs %s\n", s.needs)
			return nil
		}
	}
	if s.confined {
		why, err := p.home.refusal(p.ctx)
		if err != nil {
			return err
		}
		if why != "" {
			p.print("left out:", why)
			return nil
		}
	}
	for _, c := range s.calls {
		if c.setting != p.setting {
			fmt.Fprintf(p.out, "   with %s:\n", c.setting)
			if err := p.enter(c.setting); err != nil {
				return err
			}
		}
		if c.after != "" {
			fmt.Fprintf(p.out, "   the %s; another one comes:\n", c.after)
			if err := p.next(c.after); err != nil {
				return err
			}
		}
		if c.as != p.as {
			fmt.Fprintf(p.out, "   %s:\n", c.as)
			tenant, version, _ := strings.Cut(c.as, ", by the protocol of ")
			p.http = client.HTTP{URL: p.many.url, Version: version, Token: p.many.tokens[tenant]}
			p.as, p.other = c.as, client.NewHTTP(p.http)
			if err := p.other.Initialize(p.ctx); err != nil {
				return err
			}
		}
		text := p.ids.in(strings.Join(c.lines, "\n"))
		p.print(">", text)
		lines := strings.Split(text, "\n")
		reply, err := p.call(lines[0], arguments(lines[1:]))
		if err != nil {
			return err
		}
		p.print("<", regexp.MustCompile(`(?m)^(.{300}).{10,}$`).ReplaceAllString(reply, "$1… (a long line)"))
		if err := p.ids.match(c.want, reply); err != nil {
			return err
		}
	}
	return nil
}

// endsWithClient returns why the server's engine ends with its client, or "" if it does not.
func (p *player) endsWithClient() (why string, err error) {
	_, err = p.stdio.Call(p.ctx, "execute_command_async", map[string]any{"command": "true", "keep": true, "wait_seconds": 60})
	if refusal := (*client.Refusal)(nil); errors.As(err, &refusal) && refusal.Code == 0 {
		return refusal.Text, nil
	}
	return "", err
}

// next lets something happen to the client over stdio and starts another one.
func (p *player) next(after string) error {
	leave := p.stdio.Close
	if after == killed {
		leave = p.stdio.Vanish
	}
	if err := leave(); err != nil {
		return err
	}
	next, err := p.start("")
	if err == nil {
		p.stdio = next
	}
	return err
}

// enter ends the server that is not the usual one, and starts one with this setting unless it is "".
func (p *player) enter(setting string) (err error) {
	if p.setting != "" {
		err = p.there.Close()
	}
	p.setting = ""
	if setting == "" || err != nil {
		return err
	}
	if p.there, err = p.start(setting); err == nil {
		p.setting = setting
	}
	return err
}

func (p *player) print(sign, text string) {
	fmt.Fprintf(p.out, "   %s %s\n", sign, strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n     "))
}

// call makes a call and returns its reply. A picture is a line of the reply, and so is an error.
func (p *player) call(tool string, args map[string]any) (string, error) {
	if path, ok := strings.CutPrefix(tool, "PUT /files/"); ok {
		return "", p.http.PutFile(p.ctx, path, args["content"].(string))
	}
	if path, ok := strings.CutPrefix(tool, "GET /files/"); ok {
		return p.http.GetFile(p.ctx, path)
	}
	if path, ok := strings.CutPrefix(tool, "POST /api/"); ok {
		return "", p.http.PostAPI(p.ctx, path, args)
	}
	client := p.stdio.Client
	if p.as != "" {
		client = p.other
	}
	if p.setting != "" {
		client = p.there.Client
	}
	raw, err := client.Request(p.ctx, "tools/call", map[string]any{"name": tool, "arguments": args})
	if err != nil {
		return "", err
	}
	var reply struct {
		Content []struct {
			Type, Text, MIMEType string
			Data                 []byte
		}
	}
	if err := json.Unmarshal(raw, &reply); err != nil {
		return "", fmt.Errorf("%s: %w", tool, err)
	}
	var b strings.Builder
	for _, block := range reply.Content {
		if block.Type == "image" {
			fmt.Fprintf(&b, "(and the picture itself: %s, %d bytes)\n", block.MIMEType, len(block.Data))
			continue
		}
		b.WriteString(strings.TrimSuffix(block.Text, "\n") + "\n")
	}
	return b.String(), nil
}
