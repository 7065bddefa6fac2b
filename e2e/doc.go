// Package e2e holds what a user can see, tried on a real cluster: with kubectl
// and HTTP, and nothing of the operator's own code. `make test-e2e` starts the
// cluster, installs the chart and runs the tests in the cluster's network;
// CLUSTER=current takes the cluster of the user's own kubeconfig.
package e2e
