package sandbox_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"asyncrepl/internal/sandbox"
)

func TestParseHosts(t *testing.T) {
	for _, test := range []struct {
		list string
		want []sandbox.Host
		err  string
	}{
		{"a.example", []sandbox.Host{{Name: "a.example"}}, ""},
		{"A.Example.:443, a.example:443", []sandbox.Host{{Name: "a.example", Port: 443}}, ""},
		{"*.a.example:80,localhost", []sandbox.Host{{Name: "a.example", Below: true, Port: 80}, {Name: "localhost"}}, ""},
		{"127.0.0.1:8080,[::1]:80,[2001:DB8:0::1]", []sandbox.Host{{Name: "127.0.0.1", Port: 8080}, {Name: "::1", Port: 80}, {Name: "2001:db8::1"}}, ""},
		{"[::ffff:10.0.0.1]", []sandbox.Host{{Name: "10.0.0.1"}}, ""},
		{"", nil, `"" is no host`},
		{"a.example,,b.example", nil, `"" is no host`},
		{"*", nil, `"*" is every host; write all alone`},
		{"a.example,all", nil, `"all" is every host; write all alone`},
		{"none,a.example", nil, `"none" is no host`},
		{"http://a.example", nil, "is a URL"},
		{"10.0.0.0/8", nil, "range of addresses"},
		{"::1", nil, "needs brackets"},
		{"a.example:0", nil, "port from 1 to 65535"},
		{"a.example:https", nil, "port from 1 to 65535"},
		{"a.example:65536", nil, "port from 1 to 65535"},
		{"a b.example", nil, "neither a name nor an address"},
		{"a.*.example", nil, "neither"},
		{"*.*.example", nil, "neither"},
		{"*.1.2.3.4", nil, "neither"},
		{"-a.example", nil, "neither"},
		{"a..example", nil, "neither"},
		{"*.", nil, "neither"},
		{"0", nil, "neither"},
		{"2130706433", nil, "neither"},
		{"0x7f.1", nil, "neither"},
		{"[127.0.0.1]", nil, "neither"},
		{"[fe80::1%lo]", nil, "neither"},
		{"[::1", nil, "neither"},
		{"ä.example", nil, "neither"},
		{strings.Repeat("a.", 130) + "example", nil, "neither"},
	} {
		got, err := sandbox.ParseHosts(test.list)
		if test.err == "" && (err != nil || !slices.Equal(got, test.want)) || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
			t.Errorf("%q: got %v, %v; want %v, %q", test.list, got, err, test.want, test.err)
		}
	}
	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprintf("h%d.example", i))
	}
	list := strings.Join(many, ",")
	if got, err := sandbox.ParseHosts(list); len(got) != 1000 || err != nil {
		t.Errorf("got %d hosts, %v", len(got), err)
	}
	if _, err := sandbox.ParseHosts(list + ",more.example"); err == nil || err.Error() != "1001 hosts are more than 1000; *.NAME stands for all names below one" {
		t.Errorf("got %v", err)
	}
	if got, err := sandbox.ParseHosts("packages"); len(got) < 4 || err != nil || got[0].Port != 443 {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestHostAllows(t *testing.T) {
	hosts, err := sandbox.ParseHosts("a.example,b.example:443,*.c.example,10.0.0.1,[2001:db8::1]:80")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		target string
		want   bool
	}{
		{"a.example:1", true},
		{"A.EXAMPLE.:1", true},
		{"b.a.example:1", false},
		{"xa.example:1", false},
		{"b.example:443", true},
		{"b.example:80", false},
		{"c.example:1", false},
		{"a.c.example:1", true},
		{"a.b.c.example:1", true},
		{"ac.example:1", false},
		{"10.0.0.1:1", true},
		{"[::ffff:10.0.0.1]:1", true},
		{"10.0.0.10:1", false},
		{"[2001:DB8:0::1]:80", true},
		{"[2001:db8::1]:81", false},
	} {
		target, err := sandbox.ParseHost(test.target)
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.ContainsFunc(hosts, func(h sandbox.Host) bool { return h.Allows(target) }); got != test.want {
			t.Errorf("%s: got %v", test.target, got)
		}
	}
}
