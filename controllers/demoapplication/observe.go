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

// Observed is what desired needs to know of the cluster. A child that does not
// stand, or is not ours, is nil; so is one that the article's operator made,
// until it is taken over: the cache does not hold it before.
type Observed struct {
	// Cluster reports whether a cluster was observed.
	Cluster bool
	rollout.Seen
	workload.Children
	Service *corev1.Service
	// Sources are the ConfigMaps that the spec refers to, by name, and Copies
	// those that belong to the object. Secrets are digests of the Secrets that
	// the spec refers to, nil where nobody looks at these.
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
