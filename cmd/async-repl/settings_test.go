package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestSettings(t *testing.T) {
	tests := map[string]struct {
		args  []string
		env   map[string]string
		serve bool     // the subcommand is given
		err   []string // the parts that the error contains; nil: no error
		is    func(settings) bool
	}{
		"none":          {is: func(s settings) bool { return s.Workspace == "/here" && s.grace == 2*time.Second && s.MaxJobs == 1000 }},
		"project dir":   {env: map[string]string{"CLAUDE_PROJECT_DIR": "/there"}, is: func(s settings) bool { return s.Workspace == "/there" }},
		"workdir wins":  {env: map[string]string{"CLAUDE_PROJECT_DIR": "/there", "REPL_WORKDIR": "/this"}, is: func(s settings) bool { return s.Workspace == "/this" }},
		"flag wins":     {args: []string{"-grace", "3s"}, env: map[string]string{"REPL_GRACE": "1s"}, is: func(s settings) bool { return s.grace == 3*time.Second }},
		"seconds":       {env: map[string]string{"REPL_GRACE": "0.5"}, is: func(s settings) bool { return s.grace == 500*time.Millisecond }},
		"size":          {env: map[string]string{"REPL_MAX_OUTPUT": "16MiB"}, is: func(s settings) bool { return s.MaxOutput == 16<<20 }},
		"state":         {args: []string{"-max-state", "2GiB"}, is: func(s settings) bool { return s.MaxState == 2<<30 }},
		"state dir":     {env: map[string]string{"HOME": "/home/me"}, is: func(s settings) bool { return s.StateDir == "/home/me/.local/state/async-repl" }},
		"XDG state dir": {env: map[string]string{"HOME": "/home/me", "XDG_STATE_HOME": "/state"}, is: func(s settings) bool { return s.StateDir == "/state/async-repl" }},
		"no home":       {is: func(s settings) bool { return s.StateDir == "" }},
		"state default": {is: func(s settings) bool { return s.MaxState == 10<<30 }},
		"absence named": {env: map[string]string{"REPL_SANDBOX": "none", "REPL_TRANSPORT": "stdio"}, is: func(settings) bool { return true }},
		"one client":    {is: func(s settings) bool { return s.listen == "" && s.SessionTTL == 0 }},
		"serve":         {serve: true, is: func(s settings) bool { return s.listen == "127.0.0.1:8000" && s.SessionTTL == 2*time.Hour }},
		"serve, TTL":    {args: []string{"-session-ttl", "0"}, serve: true, is: func(s settings) bool { return s.SessionTTL == 0 }},
		"http":          {env: map[string]string{"REPL_TRANSPORT": "http"}, is: func(s settings) bool { return s.listen == "127.0.0.1:8000" }},
		"its long name": {args: []string{"-transport", "streamable-http"}, is: func(s settings) bool { return s.listen == "127.0.0.1:8000" }},
		"port":          {env: map[string]string{"REPL_PORT": "80"}, is: func(s settings) bool { return s.listen == "127.0.0.1:80" }},
		"host":          {args: []string{"-host", "::1"}, is: func(s settings) bool { return s.listen == "[::1]:8000" }},
		"listen":        {args: []string{"-listen", "localhost:80"}, is: func(s settings) bool { return s.listen == "localhost:80" }},
		"public URL":    {args: []string{"-public-url", "https://repl.example/base/"}, serve: true, is: func(s settings) bool { return s.publicURL == "https://repl.example/base" }},
		"origins": {args: []string{"-origin", "https://A.example, http://b.example:81"}, serve: true, is: func(s settings) bool {
			return slices.Equal(s.origins, []string{"https://a.example", "http://b.example:81"})
		}},
		"workspace":     {args: []string{"-workspace", "/that"}, is: func(s settings) bool { return s.Workspace == "/that" }},
		"workspace dir": {args: []string{"-workspace-dir=/that"}, is: func(s settings) bool { return s.Workspace == "/that" }},
		"in a sandbox":  {args: []string{"-sandbox", "workspace"}, is: func(s settings) bool { return s.sandbox.On && s.sandbox.Hosts == nil && !s.sandbox.Network }},
		"no sandbox":    {env: map[string]string{"REPL_SANDBOX": "false"}, is: func(settings) bool { return true }},
		"toolsets":      {env: map[string]string{"REPL_TOOLSETS": "core,namespace"}, is: func(s settings) bool { return slices.Equal(s.toolsets, []string{"core", "namespace"}) }},
		"memory":        {env: map[string]string{"REPL_MEMORY_MB": "300"}, is: func(s settings) bool { return s.MemoryMB == 300 }},
		"no limit":      {args: []string{"-memory-mb", "0"}, is: func(s settings) bool { return s.MemoryMB == 0 }},
		"TTL":           {env: map[string]string{"REPL_SESSION_TTL": "2h"}, is: func(s settings) bool { return s.SessionTTL == 2*time.Hour }},
		"TTL, minutes":  {args: []string{"-session-ttl", "1.5"}, is: func(s settings) bool { return s.SessionTTL == 90*time.Second }},
		"TTL, never":    {env: map[string]string{"REPL_SESSION_TTL": "0"}, is: func(s settings) bool { return s.SessionTTL == 0 }},
		"characters":    {env: map[string]string{"REPL_MAX_CHARS": "8000"}, is: func(s settings) bool { return s.maxChars == 8000 }},
		"no images":     {env: map[string]string{"REPL_IMAGES": "off"}, is: func(s settings) bool { return s.noImages }},
		"images":        {args: []string{"-images", "on"}, env: map[string]string{"REPL_IMAGES": "off"}, is: func(s settings) bool { return !s.noImages }},
		"one process":   {env: map[string]string{"REPL_KEEPER": "off"}, is: func(s settings) bool { return !s.keeps }},
		"lingering":     {is: func(s settings) bool { return s.linger == 2*time.Minute && s.lingerGoodbye == 0 }},
		"CI":            {env: map[string]string{"CI": "true"}, is: func(s settings) bool { return s.linger == 0 }},
		"CI, lingering": {args: []string{"-linger", "90"}, env: map[string]string{"CI": "1"}, is: func(s settings) bool { return s.linger == 90*time.Second }},
		"goodbye":       {env: map[string]string{"REPL_LINGER_GOODBYE": "1h"}, is: func(s settings) bool { return s.lingerGoodbye == time.Hour }},
		"sandbox": {args: []string{"-sandbox-read", "/a b:/c", "-sandbox-net=a.example:443,packages"}, env: map[string]string{"REPL_SANDBOX": "workspace", "REPL_SANDBOX_WRITE": "/d", "REPL_SANDBOX_ENV": "A_TOKEN, B_KEY"}, is: func(s settings) bool {
			return slices.Equal(s.sandbox.Read, []string{"/a b", "/c"}) && slices.Equal(s.sandbox.Write, []string{"/d"}) && len(s.sandbox.Hosts) > 1 && !s.sandbox.Network &&
				slices.Equal(s.sandbox.Pass, []string{"A_TOKEN", "B_KEY"})
		}},
		"all networks":  {env: map[string]string{"REPL_SANDBOX": "workspace", "REPL_SANDBOX_NET": "all"}, is: func(s settings) bool { return s.sandbox.Network && s.sandbox.Hosts == nil }},
		"no network":    {args: []string{"-sandbox-net", "none"}, env: map[string]string{"REPL_SANDBOX": "none", "REPL_SANDBOX_NET": "all"}, is: func(s settings) bool { return !s.sandbox.Network }},
		"no page":       {is: func(s settings) bool { return s.page == "" && s.pageAt == "async-repl page" }},
		"page off":      {env: map[string]string{"REPL_PAGE": "off"}, is: func(s settings) bool { return s.page == "off" && s.pageAt == "" }},
		"page":          {args: []string{"-page", "-public-url", "https://repl.example/"}, serve: true, is: func(s settings) bool { return s.page == "on" }},
		"page on":       {args: []string{"-page=on"}, serve: true, is: func(s settings) bool { return s.page == "on" && s.pageAt == "" }},
		"served, local": {serve: true, is: func(s settings) bool { return s.pageAt == "async-repl page" }},
		"served, many":  {args: []string{"-tokens", "/t"}, serve: true, is: func(s settings) bool { return s.pageAt == "" }},
		"page, then":    {args: []string{"-page", "-listen", "127.0.0.1:80"}, is: func(s settings) bool { return s.page == "on" && s.listen == "127.0.0.1:80" }},
		"unknown REPL_": {env: map[string]string{"REPL_ID": "of another program"}, is: func(settings) bool { return true }},

		"bad keeper":      {env: map[string]string{"REPL_KEEPER": "true"}, err: []string{"REPL_KEEPER", "true", "on or off"}},
		"bad linger":      {env: map[string]string{"REPL_LINGER": "-1s"}, err: []string{"REPL_LINGER", "-1s", "2s", "0s or more"}},
		"bad grace":       {env: map[string]string{"REPL_GRACE": "soon"}, err: []string{"REPL_GRACE", "soon", "allowed", "2s"}},
		"long grace":      {env: map[string]string{"REPL_GRACE": "5m"}, err: []string{"REPL_GRACE", "5m", "1m50s"}},
		"no grace":        {env: map[string]string{"REPL_GRACE": "0"}, err: []string{"REPL_GRACE", "0", "1ms"}},
		"few characters":  {env: map[string]string{"REPL_MAX_CHARS": "1999"}, err: []string{"REPL_MAX_CHARS", "1999", "a whole number from 2000 to 45000"}},
		"many characters": {args: []string{"-max-chars", "45001"}, err: []string{"-max-chars", "45001", "45000"}},
		"bad images":      {env: map[string]string{"REPL_IMAGES": "false"}, err: []string{"REPL_IMAGES", "false", "on or off"}},
		"bad count":       {env: map[string]string{"REPL_MAX_JOBS": "0"}, err: []string{"REPL_MAX_JOBS", `"0"`, "1 or more"}},
		"bad memory":      {env: map[string]string{"REPL_MEMORY_MB": "1GiB"}, err: []string{"REPL_MEMORY_MB", "1GiB", "0, or a whole number from 64 to 16777216"}},
		"small memory":    {env: map[string]string{"REPL_MEMORY_MB": "63"}, err: []string{"REPL_MEMORY_MB", "63", "64"}},
		"bad size":        {env: map[string]string{"REPL_MAX_OUTPUT": "1XB"}, err: []string{"REPL_MAX_OUTPUT", "1XB", "MiB"}},
		"bad state":       {env: map[string]string{"REPL_MAX_STATE": "lots"}, err: []string{"REPL_MAX_STATE", "lots", "1GiB"}},
		"small state":     {env: map[string]string{"REPL_MAX_STATE": "4095"}, err: []string{"REPL_MAX_STATE", "4095", "4096"}},
		"relative":        {env: map[string]string{"REPL_WORKDIR": "sub"}, err: []string{"REPL_WORKDIR", "sub", "absolute"}},
		"bad flag":        {args: []string{"-grace", "x"}, err: []string{"-grace", `"x"`}},
		"no such flag":    {args: []string{"-nope"}, err: []string{"nope", "see async-repl help"}},
		"bad sandbox":     {env: map[string]string{"REPL_SANDBOX": "strict"}, err: []string{"REPL_SANDBOX", "strict", "none"}},
		"bad read":        {env: map[string]string{"REPL_SANDBOX_READ": "/a:~/b"}, err: []string{"REPL_SANDBOX_READ", "/a:~/b", "absolute paths with : between"}},
		"bad write":       {args: []string{"-sandbox-write", "/a::/b"}, err: []string{"-sandbox-write", "absolute paths"}},
		"bad network":     {args: []string{"-sandbox-net", "https://a.example"}, err: []string{"-sandbox-net", "all, or a list", "is a URL"}},
		"bad names":       {env: map[string]string{"REPL_SANDBOX_ENV": "A=b"}, err: []string{"REPL_SANDBOX_ENV", "names of variables"}},
		"bad name":        {env: map[string]string{"REPL_SANDBOX_ENV": "A_TOKEN,*"}, err: []string{"REPL_SANDBOX_ENV", "names of variables"}},
		"absent sandbox":  {args: []string{"-sandbox-net", "packages"}, err: []string{"-sandbox-net", "set REPL_SANDBOX to workspace, or to none"}},
		"absent, named":   {env: map[string]string{"REPL_SANBOX": "workspace", "REPL_SANDBOX_READ": "/data"}, err: []string{"REPL_SANDBOX_READ", "workspace, or to none"}},
		"bad transport":   {env: map[string]string{"REPL_TRANSPORT": "sse"}, err: []string{"REPL_TRANSPORT", "sse", "streamable-http"}},
		"bad port":        {env: map[string]string{"REPL_PORT": "65536"}, err: []string{"REPL_PORT", "65536", "65535"}},
		"bad URL":         {args: []string{"-public-url", "repl.example"}, serve: true, err: []string{"-public-url", "repl.example", "https://HOST"}},
		"bad origin":      {args: []string{"-origin", "https://a.example/page"}, serve: true, err: []string{"-origin", "https://a.example/page", "http://HOST:PORT"}},
		"any origin":      {args: []string{"-origin", "*"}, serve: true, err: []string{"-origin", "*"}},
		"origin of stdio": {args: []string{"-origin", "https://a.example"}, err: []string{"-origin", "serve"}},
		"serve stdio":     {args: []string{"-transport", "stdio"}, serve: true, err: []string{"serve", "stdio", "-transport"}},
		"stdio address":   {args: []string{"-transport", "stdio"}, env: map[string]string{"REPL_PORT": "80"}, err: []string{"stdio", "REPL_PORT"}},
		"two addresses":   {args: []string{"-listen", "127.0.0.1:80", "-port", "81"}, err: []string{"127.0.0.1:80", "-port"}},
		"bad page":        {env: map[string]string{"REPL_PAGE": "yes"}, serve: true, err: []string{"REPL_PAGE", "yes", "on or off"}},
		"page of stdio":   {env: map[string]string{"REPL_PAGE": "on"}, err: []string{"-page (REPL_PAGE=on) is about HTTP", "serve -page", "async-repl page"}},
		"page of one":     {args: []string{"-page", "-transport", "stdio"}, err: []string{"-page (REPL_PAGE=on) is about HTTP"}},
		"page below":      {args: []string{"-page", "-public-url", "https://a.example/repl/mcp"}, serve: true, err: []string{"-page", "https://a.example/repl", "a name or a port of its own"}},
		"bad TTL":         {env: map[string]string{"REPL_SESSION_TTL": "a while"}, err: []string{"REPL_SESSION_TTL", "a while", "minutes", "90s"}},
		"negative TTL":    {env: map[string]string{"REPL_SESSION_TTL": "-5"}, err: []string{"REPL_SESSION_TTL", "-5", "minutes"}},
		"endless TTL":     {env: map[string]string{"REPL_SESSION_TTL": "inf"}, err: []string{"REPL_SESSION_TTL", "inf", "minutes"}},
		"bad toolset":     {args: []string{"-toolsets", "core,more"}, err: []string{"-toolsets", "core,more", "all, or one or more of core, sessions, namespace"}},
		"stray word":      {args: []string{"-grace", "2s", "demo"}, err: []string{"demo"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s, err := parseSettings(test.args, func(k string) string { return test.env[k] }, "/here", test.serve)
			if test.err == nil {
				if err != nil || !test.is(s) {
					t.Errorf("settings %+v, error %v", s, err)
				}
				return
			}
			if err == nil {
				t.Fatal("no error")
			}
			for _, part := range test.err {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not contain %q", err, part)
				}
			}
		})
	}
}

// The summary of a sandbox stays one short line: of paths that do not fit it says only how many there are.
func TestSandboxSummary(t *testing.T) {
	long := "/srv/" + strings.Repeat("x", 80)
	for want, writes := range map[string][]string{
		"workspace; writes /srv/app, /data, /tmp; home hidden; network none":     {"/srv/app", "/data"},
		"workspace; writes /srv/app, /tmp and 1 more; home hidden; network none": {"/srv/app", long},
		"workspace; writes /tmp and 1 more; home hidden; network none":           {long},
		"workspace; writes /tmp and 2 more; home hidden; network none":           {long, "/data"},
	} {
		if got := (sandboxSettings{}).summary(writes); got != want {
			t.Errorf("%q: got %q, want %q", writes, got, want)
		}
	}
}
