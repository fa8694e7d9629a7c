package kubernetes

import (
	"errors"
	"strings"

	"asyncrepl/internal/place/allocation"
	"asyncrepl/internal/text/pattern"
)

// causes are what kubectl says, in parts that stand in its error, and what helps. The first that matches
// counts.
var causes = []struct {
	said    []string // any of them
	refuses bool     // nothing was done
	cure    string
}{
	{[]string{" cannot create resource", " cannot list resource", " cannot get resource", " cannot delete resource"}, true,
		"this user lacks a right: it needs create, get, list and delete for pods, and create for pods/exec"},
	{[]string{"exceeded quota"}, true, "the namespace's quota is used up: end other pods, or ask for less in the file of the pod"},
	{[]string{"(Unauthorized)", "must be logged in", "to provide credentials", "getting credentials"}, true, "kubectl is not logged in: run \"kubectl get pods\" in a terminal, and log in as it says"},
	{[]string{"context was not found", "error: context \""}, true, "the context of kubectl is gone: restore it in the kubeconfig"},
	{[]string{"Unable to connect to the server", "did you specify the right host or port", "dial tcp", "i/o timeout",
		"TLS handshake timeout", "Client.Timeout exceeded", "context deadline exceeded", "(ServiceUnavailable)", "(Timeout)", "etcdserver:"}, false,
		"the API server of Kubernetes does not answer: check the context of kubectl and the network"},
	{[]string{" is invalid: ", "(BadRequest)", "strict decoding error", "violates PodSecurity", "admission webhook"}, true,
		"Kubernetes refuses the pod: correct its file"},
}

// explained returns an error of kubectl with what helps, as an [allocation.Refused] if nothing was done. Other errors,
// as those of ssh, stay as they are.
func explained(err error) error {
	var e *allocation.Error
	if !errors.As(err, &e) || !e.Reached {
		return err
	}
	explained := *e
	explained.Text = lastWords(e.Text)
	if e.Code == 127 {
		explained.Text = line("there is no kubectl on that machine's PATH: install it, or name a machine that has it by \"ssh\" ("+explained.Text+")", textChars)
		return allocation.Refuse(&explained)
	}
	for _, cause := range causes {
		for _, said := range cause.said {
			if strings.Contains(e.Text, said) {
				explained.Text = line(cause.cure+" ("+explained.Text+")", 2*textChars)
				if cause.refuses {
					return allocation.Refuse(&explained)
				}
				return &explained
			}
		}
	}
	return &explained
}

// logged matches the beginning of a line that a library in kubectl logs. Kubectl tries an API server five
// times and logs each try, before it says what failed.
var logged = pattern.Lazy(`^[EWIF]\d{4} \d\d:\d\d:\d\d`)

// lastWords returns text, which is lines joined by "; ", without what is only logged.
func lastWords(text string) string {
	var words []string
	for _, said := range strings.Split(text, "; ") {
		if !logged().MatchString(said) {
			words = append(words, said)
		}
	}
	if len(words) == 0 {
		return text
	}
	return strings.Join(words, "; ")
}
