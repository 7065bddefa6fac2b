package model

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/platform-operator/platform-operator/pkg/testkit"
)

// On a real cluster the Deployment controller, the kubelet, the autoscaler and the
// operator are not simulated: the World only edits, reads and waits.

const (
	// clusterPatience is how long an object may take until it is as the model
	// expects. That includes a rollout that fails at its deadline, and its
	// rollback.
	clusterPatience = 3 * time.Minute
	// clusterHolds is how often in a row, at intervals of a second, an object must
	// be as the model expects. An object may be correct by chance before the
	// operator has acted.
	clusterHolds = 3
	// clusterGone is how long a deletion may take, including the termination of
	// pods.
	clusterGone = 90 * time.Second
)

// clusterTags replaces the images of the catalogue by those of e2e/cluster.
var clusterTags = strings.NewReplacer(
	"nginx:1.27.1", "nginx:1.23.0", "nginx:1.27.2", "nginx:1.27.4",
	"memcached:1.27.1", "memcached:1.6.18", "memcached:1.27.2", "memcached:1.6", "memcached:1.27.3", "memcached:1.4.36-alpine",
	`"progressDeadlineSeconds":1`, `"progressDeadlineSeconds":20`,
)

// simulatedOnly are the operations that need a simulated component, or whose
// outcome on a real cluster is not what the model expects, with the reason.
var simulatedOnly = map[string]string{
	"quota": "the model's quota is that of the simulated cluster", "quota-off": "as quota",
	"load-5": "there is no load", "load-off": "as load-5",
	"pod-fails": "the kubelet writes the status of pods", "pod-succeeds": "as pod-fails",
	"restart-operator": "other chains run with the same operator",
	"clock-back":       "the operator's clock is the machine's", "clock-forth": "as clock-back",
	"tls":                "the Secret holds no certificate, and nginx does not start",
	"security":           "nginx of these images does not start as that user",
	"profile-restricted": "as security", "i-restricted": "as security",
	"ports-other": "nginx does not listen on that port, so no pod gets ready",
	"i-command":   "the container ends after a second, again and again",
	"min-ready":   "real pods do not start within that deadline",
	// The model has no HTTPRoute, which this cluster serves.
	"expose-gateway": "the model expects that the type is not served",
}

// notForClusters returns the names of the operations that cannot run on a real
// cluster.
func notForClusters() []string {
	var names []string
	for _, o := range catalogue() {
		if _, simulated := simulatedOnly[o.Name]; simulated || o.Fault {
			names = append(names, o.Name)
		}
	}
	return names
}

// onCluster returns the kind with images that the cluster has, and a deadline that
// real pods can meet.
func (k *Kind) onCluster() *Kind {
	c := *k
	c.tags = clusterTags
	c.Base = clusterTags.Replace(k.Base)
	return &c
}

// ForCluster shortens a chain to what a real cluster does in minutes, and appends a
// deletion, in which both the real garbage collector and the operator take part.
func (c Chain) ForCluster(steps int, deletion string) Chain {
	c.steps = append(slices.Clone(c.steps[:min(len(c.steps), steps)]), step{deletion, paceSettle})
	for i := range c.steps {
		if c.steps[i].pace == paceIdle {
			c.steps[i].pace = paceNow // the cluster cannot be stopped
		}
	}
	return c
}

// RunOnCluster executes a chain in a namespace of its own, with the installed
// operator.
func RunOnCluster(ctx context.Context, env *testkit.Env, c Chain) (*Result, error) {
	k, err := kindNamed(c.kind)
	if err != nil {
		return nil, err
	}
	return run(ctx, env, c, k.onCluster(), true)
}

// ClusterScript returns a chain that ran on a real cluster as a kubectl script.
func ClusterScript(c Chain) string { return clusterTags.Replace(Script(c)) }

// holds waits until the object is as the model expects.
func (w *World) holds(ctx context.Context) error {
	began := time.Now()
	for good := 0; good < clusterHolds; {
		found, err := w.judge(ctx)
		if err != nil {
			return err
		}
		ending, err := w.podsEnd(ctx)
		switch {
		case err != nil:
			return err
		case len(found) == 0 && !ending:
			good++
		default:
			good = 0
		}
		if time.Since(began) > clusterPatience && len(found) > 0 {
			for _, v := range found {
				w.violate(v.Oracle, "%s", v.Detail)
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
	w.memory.floor = 0 // the autoscaler may ask for fewer pods at any time
	return w.remember(ctx)
}

// podsEnd reports whether pods are being deleted. Such pods still run, and may be
// ready.
func (w *World) podsEnd(ctx context.Context) (bool, error) {
	s, err := w.look(ctx)
	if err != nil || s == nil {
		return false, err
	}
	return slices.ContainsFunc(s.pods, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil }), nil
}

// belongs reports whether a pod belongs to the workload.
func (w *World) belongs(s *scene, p *corev1.Pod) bool {
	if !w.kind.hasDeployment() {
		return p.Name == w.kind.Workload.Name
	}
	owner := metav1.GetControllerOf(p)
	if s.deployment == nil || owner == nil {
		return false
	}
	if !w.onCluster {
		return owner.UID == s.deployment.UID
	}
	selector, err := metav1.LabelSelectorAsSelector(s.deployment.Spec.Selector)
	return err == nil && owner.Kind == "ReplicaSet" && selector.Matches(labels.Set(p.Labels))
}
