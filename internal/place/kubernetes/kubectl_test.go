//go:build unix

package kubernetes

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"asyncrepl/internal/place/allocation"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
)

// An apiServer answers kubectl about pods, as the API server of Kubernetes does, and runs none. With it, the
// tests see that kubectl understands our commands; what happens in pods is tried in a cluster
// (cluster_real_test.go).
type apiServer struct {
	mu      sync.Mutex
	pods    map[string]map[string]any // by namespace/name
	queries []string                  // of requests that created, listed or deleted pods
	refusal *refusal                  // what requests for pods get instead
}

type refusal struct {
	code            int
	reason, message string
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	answer := func(code int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		json.NewEncoder(w).Encode(v)
	}
	refuse := func(f refusal) {
		answer(f.code, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": f.code, "reason": f.reason, "message": f.message})
	}
	const gvk = `"x-kubernetes-group-version-kind": {"group": "", "version": "v1", "kind": "Pod"}`
	fixed := map[string]string{
		"/version": `{"major": "1", "minor": "31", "gitVersion": "v1.31.4"}`,
		"/api":     `{"kind": "APIVersions", "versions": ["v1"]}`,
		"/apis":    `{"kind": "APIGroupList", "apiVersion": "v1", "groups": []}`,
		"/api/v1": `{"kind": "APIResourceList", "groupVersion": "v1", "resources": [{"name": "pods", "singularName": "pod", "namespaced": true, "kind": "Pod",
			"verbs": ["create", "delete", "get", "list"]}]}`,
		"/openapi/v3": `{"paths": {"api/v1": {"serverRelativeURL": "/openapi/v3/api/v1?hash=1"}}}`,
		"/openapi/v3/api/v1": `{"openapi": "3.0.0", "info": {"title": "t", "version": "1"}, "paths": {"/api/v1/namespaces/{namespace}/pods/{name}": {"patch": {
			"parameters": [{"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}], ` + gvk + `, "responses": {}}}},
			"components": {"schemas": {}}}`,
	}
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case fixed[r.URL.Path] != "":
		answer(http.StatusOK, json.RawMessage(fixed[r.URL.Path]))
	case len(path) < 5 || path[4] != "pods":
		refuse(refusal{http.StatusNotFound, "NotFound", "the server could not find the requested resource"})
	case a.refusal != nil:
		refuse(*a.refusal)
	case r.Method == http.MethodPost:
		body, _ := io.ReadAll(r.Body)
		var pod map[string]any
		if json.Unmarshal(body, &pod) != nil {
			refuse(refusal{http.StatusBadRequest, "BadRequest", "no JSON"})
			return
		}
		metadata := pod["metadata"].(map[string]any)
		name := fmt.Sprint(metadata["generateName"], len(a.pods))
		metadata["name"], metadata["namespace"] = name, path[3]
		pod["status"] = map[string]any{"phase": "Pending", "conditions": []any{map[string]any{
			"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available: 3 Insufficient memory."}}}
		a.pods[path[3]+"/"+name] = pod
		a.queries = append(a.queries, "create "+r.URL.Query().Get("fieldValidation"))
		answer(http.StatusCreated, pod)
	case r.Method == http.MethodGet && len(path) == 5:
		a.queries = append(a.queries, "list "+r.URL.Query().Get("labelSelector")+" "+r.URL.Query().Get("fieldSelector"))
		items := []any{}
		for _, id := range slices.Sorted(maps.Keys(a.pods)) {
			metadata := a.pods[id]["metadata"].(map[string]any)
			labels, _ := metadata["labels"].(map[string]any)
			matches := strings.HasPrefix(id, path[3]+"/")
			for _, label := range strings.Split(r.URL.Query().Get("labelSelector"), ",") {
				key, value, _ := strings.Cut(label, "=")
				matches = matches && labels[key] == value
			}
			field := r.URL.Query().Get("fieldSelector")
			if matches && (field == "" || field == fmt.Sprint("metadata.name=", metadata["name"])) {
				items = append(items, a.pods[id])
			}
		}
		answer(http.StatusOK, map[string]any{"kind": "PodList", "apiVersion": "v1", "metadata": map[string]any{}, "items": items})
	case r.Method == http.MethodDelete && len(path) == 6:
		a.queries = append(a.queries, "delete "+path[5])
		delete(a.pods, path[3]+"/"+path[5])
		answer(http.StatusOK, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Success"})
	default:
		refuse(refusal{http.StatusMethodNotAllowed, "MethodNotAllowed", r.Method + " " + r.URL.Path})
	}
}

// kubeconfig makes kubectl talk to the server at address, with one context.
func kubeconfig(t *testing.T, address string) {
	t.Helper()
	needtest.Program(t, "kubectl")
	home := t.TempDir()
	path := filepath.Join(home, "kubeconfig")
	must.Do(t, os.WriteFile(path, fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "Config", "current-context": "here",
		"clusters": [{"name": "c", "cluster": {"server": %q}}], "users": [{"name": "u", "user": {"token": "t"}}],
		"contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "team"}}]}`, address), 0o600))
	t.Setenv("HOME", home) // kubectl keeps what it has read of the API there
	t.Setenv("KUBECONFIG", path)
}

func served(t *testing.T) *apiServer {
	t.Helper()
	a := &apiServer{pods: make(map[string]map[string]any)}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	kubeconfig(t, server.URL)
	return a
}

// Kubectl creates, lists and deletes as we ask it to, in the namespace of its context, and deletes no pod
// that does not bear our key.
func TestKubectlUnderstands(t *testing.T) {
	a := served(t)
	ours := must.Get(New([]byte(small), "key1", allocation.Local))(t)
	theirs := must.Get(New([]byte(small), "key2", allocation.Local))(t)
	one := must.Get(ours.Allocate(t.Context(), "one", engine))(t)
	other := must.Get(theirs.Allocate(t.Context(), "other", engine))(t)
	if one != "box-0/team/main/here" || other != "box-1/team/main/here" {
		t.Fatalf("the ids are %q and %q", one, other)
	}

	got := must.Get(ours.States(t.Context(), []string{one, other}))(t)
	if s := got[one]; s.Phase != allocation.Pending || s.Text != "pod box-0, Unschedulable: 0/3 nodes are available: 3 Insufficient memory." {
		t.Errorf("our pod is %+v", s)
	}
	if got[other].Phase != allocation.Unknown {
		t.Errorf("the pod of another key is %+v", got[other])
	}

	two := must.Get(ours.Allocate(t.Context(), "two", engine))(t)
	must.Get(ours.Allocate(t.Context(), "two", engine))(t)
	left := func(want ...string) {
		t.Helper()
		a.mu.Lock()
		defer a.mu.Unlock()
		if pods := slices.Sorted(maps.Keys(a.pods)); !slices.Equal(pods, want) {
			t.Errorf("the pods that are left are %q, not %q", pods, want)
		}
	}
	must.Do(t, ours.Release(t.Context(), other, "other"))
	must.Do(t, ours.Release(t.Context(), one, "two"))
	left("team/box-0", "team/box-1", "team/box-2", "team/box-3")
	must.Do(t, ours.Release(t.Context(), two, "two"))
	left("team/box-0", "team/box-1", "team/box-3")
	must.Do(t, ours.Release(t.Context(), two, "two")) // there is none any more
	must.Do(t, ours.Release(t.Context(), "", "two"))
	left("team/box-0", "team/box-1")
	must.Do(t, ours.Release(t.Context(), one, "one"))
	left("team/box-1")
	a.mu.Lock()
	defer a.mu.Unlock()
	if slices.Contains(a.queries, "create ") || !slices.Contains(a.queries, "create Strict") {
		t.Errorf("the API server checks no files: %q", a.queries)
	}
}

func TestKubectlIsRefused(t *testing.T) {
	a := served(t)
	c := must.Get(New([]byte(small), "key1", allocation.Local))(t)
	const id = "box-0/team/main/here"
	for _, r := range []struct {
		refusal refusal
		want    string
	}{
		{refusal{http.StatusForbidden, "Forbidden", `pods is forbidden: User "u" cannot create resource "pods" in API group "" in the namespace "team"`}, "this user lacks a right"},
		{refusal{http.StatusUnauthorized, "Unauthorized", "Unauthorized"}, "kubectl is not logged in"},
		{refusal{http.StatusServiceUnavailable, "ServiceUnavailable", "the server is currently unable to handle the request"}, "does not answer"},
		{refusal{http.StatusUnprocessableEntity, "Invalid", `Pod "box-0" is invalid: spec.containers[0].image: Required value`}, "Kubernetes refuses the pod: correct its file"},
	} {
		a.mu.Lock()
		a.refusal = &r.refusal
		a.mu.Unlock()
		_, err := c.Allocate(t.Context(), "a", engine)
		if err == nil || !strings.Contains(err.Error(), r.want) {
			t.Errorf("%s: the error is %v, without %q", r.refusal.reason, err, r.want)
		}
		if got, err := c.States(t.Context(), []string{id}); err == nil || got != nil {
			t.Errorf("%s: the states are %v, %v", r.refusal.reason, got, err)
		}
		if err := c.Release(t.Context(), id, "a"); err == nil {
			t.Errorf("%s: the pod counts as released", r.refusal.reason)
		}
	}
}

func TestKubectlReachesNothing(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	must.Do(t, l.Close()) // no one listens there now
	kubeconfig(t, "http://"+l.Addr().String())
	c := must.Get(New([]byte(small), "key1", allocation.Local))(t)
	begin := time.Now()
	_, err := c.Allocate(t.Context(), "a", engine)
	if err == nil || !strings.HasPrefix(err.Error(), "kubectl: the API server of Kubernetes does not answer: ") || strings.Contains(err.Error(), "memcache.go") {
		t.Errorf("after %v: %v", time.Since(begin), err)
	}
	// Before it gives up, kubectl logs more than an error has room for.
	err = c.Release(t.Context(), "box-0/team/main/here", "a")
	if err == nil || !strings.HasPrefix(err.Error(), "kubectl: the API server of Kubernetes does not answer: ") || strings.Contains(err.Error(), "memcache.go") {
		t.Errorf("of a delete: %v", err)
	}
	_, err = c.States(t.Context(), []string{"box-0/team/main/gone"})
	if err == nil || !strings.Contains(err.Error(), "the context of kubectl is gone") {
		t.Errorf("without its context: %v", err)
	}
}

func TestWithoutKubectl(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	c := must.Get(New([]byte(small), "key1", allocation.Local))(t)
	if _, err := c.Allocate(t.Context(), "a", engine); err == nil || !strings.HasPrefix(err.Error(), "kubectl: there is no kubectl on that machine's PATH: install it") {
		t.Error(err)
	}
}
