package demoapplication

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"

	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/references"
	"github.com/platform-operator/platform-operator/pkg/rollout"
	"github.com/platform-operator/platform-operator/pkg/workload"
)

// Observed is the part of the cluster state that the plan and the status depend on.
// A child that does not exist or is not owned is nil. So is a child that the legacy
// operator created, until it is adopted, because the cache does not contain it
// before.
type Observed struct {
	// Cluster reports whether a cluster was observed.
	Cluster bool
	rollout.Seen
	workload.Children
	Service *corev1.Service
	// Sources are the ConfigMaps that the spec refers to, by name, and Copies are
	// the snapshots that the object owns. Secrets are digests of the Secrets that
	// the spec refers to, or nil if they are not read.
	Sources map[string]references.Source
	Copies  []*corev1.ConfigMap
	Secrets map[string]references.SecretDigest
}

func observe(ctx context.Context, r converge.Reader, a *demoapplicationv1.DemoApplication) (Observed, error) {
	o := Observed{Cluster: !r.Offline, Sources: r.Sources, Copies: r.Copies, Secrets: r.Secrets}
	var errs [3]error
	o.Seen, errs[0] = rollout.Observe(ctx, r, a, a.Name, labels(a))
	o.Children, errs[1] = workload.Observe(ctx, r, a)
	o.Service, errs[2] = converge.Ours(ctx, r, a, a.Name, &corev1.Service{})
	return o, errors.Join(errs[:]...)
}
