// Package e2e tests what users can observe, on a real cluster, with kubectl and
// HTTP, and without any code of the operator. `make test-e2e` starts the cluster,
// installs the chart and runs the tests in the network of the cluster;
// CLUSTER=current uses the cluster of the current kubeconfig instead.
package e2e
