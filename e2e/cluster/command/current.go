package command

import "fmt"

// With CLUSTER=current the tests run against whatever cluster the user's
// kubeconfig points at. Nothing here starts, stops or breaks that cluster.

func useCurrentCluster(getenv func(string) string) bool { return getenv("CLUSTER") == "current" }

// refuseOnCurrent is the error of a command that would harm the user's cluster.
func refuseOnCurrent(command string) error {
	return fmt.Errorf("cluster %s works on the cluster made by `cluster up` only, not with CLUSTER=current", command)
}
