package kubernetes

import (
	"fmt"
	"strings"
)

// A place is where a pod is, and which container of it is ours.
type place struct{ pod, namespace, container, context string }

// id returns the place as one word. The context comes last, because it alone can have a "/".
func (p place) id() string {
	return strings.Join([]string{p.pod, p.namespace, p.container, p.context}, "/")
}

// parse returns the place of an id. An id comes from a file, and its parts become arguments of kubectl.
func parse(id string) (place, error) {
	parts := strings.SplitN(id, "/", 4)
	if len(parts) != 4 {
		return place{}, fmt.Errorf("%q is no id of a pod", line(id, 100))
	}
	for _, part := range parts[:3] {
		if !dnsName().MatchString(part) {
			return place{}, fmt.Errorf("%q is no id of a pod: %q is no name", line(id, 100), line(part, 100))
		}
	}
	return place{pod: parts[0], namespace: parts[1], container: parts[2], context: parts[3]}, nil
}

// kubectl returns a command of kubectl for the context and the namespace of p.
func (p place) kubectl(args ...string) []string {
	argv := []string{"kubectl"}
	if p.context != "" {
		argv = append(argv, "--context="+p.context)
	}
	if p.namespace != "" {
		argv = append(argv, "--namespace="+p.namespace)
	}
	return append(argv, args...)
}
