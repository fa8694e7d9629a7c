// Package kubernetes gets an allocation from a cluster of Kubernetes: a pod whose first container runs our
// engine. It speaks to the cluster through kubectl, because kubectl knows how its user logs in.
//
// The file of the person describes the pod (manifest.go); only the name, the first container's command and
// what would end or restart that command are ours. A pod bears the key of the server that asked for it as a
// label, and package kubernetes deletes nothing that does not bear it. The context of kubectl (its cluster
// and its user), the namespace and the container are part of a pod's id: a person who switches to another
// cluster moves no pod and loses none.
//
// What the cluster says comes from outside: names are checked before they become arguments of kubectl, and
// the words of the scheduler are escaped and cut (state.go).
//
// Begin with [Cluster].
package kubernetes
