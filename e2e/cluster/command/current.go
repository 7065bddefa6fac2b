package command

// With CLUSTER=current the tests run against whatever cluster the user's
// kubeconfig points at. Nothing here starts, stops or breaks that cluster.

func useCurrentCluster(getenv func(string) string) bool { return getenv("CLUSTER") == "current" }
