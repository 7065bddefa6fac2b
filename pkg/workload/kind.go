// Package workload reconciles the kinds whose pods a Deployment runs. A kind
// describes its pods and its Service; revisions and rollback, scaling, disruption
// budget, network policy, exposure, monitoring and the status that these kinds
// share are handled here.
package workload

import (
	"context"
	"errors"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/configsource"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/message"
	"github.com/platform-operator/platform-operator/pkg/resources"
	"github.com/platform-operator/platform-operator/pkg/resources/monitoring"
	"github.com/platform-operator/platform-operator/pkg/rollout"
	"github.com/platform-operator/platform-operator/pkg/rolloutlimit"
)

// Kind describes a kind whose pods a Deployment runs.
type Kind[T converge.Object] struct {
	// New, NewList, AddToScheme, Log and Paused are those of converge.Kind.
	New         func() T
	NewList     func() client.ObjectList
	AddToScheme func(*runtime.Scheme) error
	Log         converge.LogText
	Paused      func(T) bool
	// PodLabel is the label of the pods whose value is the name of the object.
	// FixedPodLabels are other labels, and their values, that all pods have.
	PodLabel       string
	FixedPodLabels map[string]string
	// Labels returns the labels that select an object's pods. The selector of a
	// Deployment is immutable.
	Labels func(T) map[string]string
	// ServiceName returns the name of an object's Service.
	ServiceName func(T) string
	// Web reports whether the objects can be autoscaled, exposed and monitored, and
	// Before whether a command can run before their rollouts.
	Web, Before bool
	// ConfigMaps returns the users' ConfigMaps whose content matters to an
	// object, and Secrets the names of such Secrets. Nil: there are none.
	ConfigMaps func(T) []configsource.Reference
	Secrets    func(T) []string
	// Object returns an object as one reconcile handles it.
	Object func(T, Observed) Object

	Platform config.Platform
}

// Converge returns the kind as the reconcile loop handles it.
func (k Kind[T]) Converge() converge.AnyKind {
	children := []client.Object{
		&appsv1.Deployment{}, &appsv1.ControllerRevision{}, &corev1.Service{},
		&policyv1.PodDisruptionBudget{}, &networkingv1.NetworkPolicy{},
	}
	var optional []client.Object
	groups := message.Deployments
	if k.Web {
		groups = slices.Concat(groups, message.Web)
		children = append(children, &autoscalingv2.HorizontalPodAutoscaler{}, &networkingv1.Ingress{})
		optional = []client.Object{&gatewayv1.HTTPRoute{}, &monitoring.PodMonitor{}}
	}
	if k.ConfigMaps != nil {
		children = append(children, &corev1.ConfigMap{}) // snapshots
	}
	if k.Before {
		children = append(children, &batchv1.Job{})
	}
	seen := &nodes{}
	c := converge.Kind[T, Observed]{
		New: k.New, NewList: k.NewList, AddToScheme: k.AddToScheme, Log: k.Log, Groups: groups, Paused: k.Paused,
		Children: children, Optional: optional, Labels: k.Labels,
		Watches:    []converge.Watch{Pods(k.PodLabel, k.FixedPodLabels)},
		Unowned:    []client.Object{&policyv1.PodDisruptionBudget{}},
		References: k.ConfigMaps,
		Claims:     resources.Claims,
		Observe: func(ctx context.Context, r converge.Reader, obj T) (Observed, error) {
			o, err := k.observe(ctx, r, obj)
			o.OnlyNode = seen.only(o.Pods)
			return o, err
		},
		Model: func(obj T, o Observed) converge.Model { return k.Model(obj, o) },
	}
	if k.Platform.RestartOnSecretChange {
		c.Secrets = k.Secrets
	}
	if limit := int(k.Platform.SharedRollouts); limit > 0 && (k.ConfigMaps != nil || k.Secrets != nil) {
		c.Limiter = limiter{rolloutlimit.New(limit)}
	}
	return converge.Erase(c)
}

// Observed is what exists in the cluster. A child that does not exist, or is not
// owned by the object, is nil.
type Observed struct {
	// Offline reports that no cluster was observed, and Now is when it was.
	Offline bool
	Now     time.Time
	// Observed has all pods that carry the labels of the object, at any time.
	rollout.Observed
	Children
	Service *corev1.Service
	// OnlyNode is the node that all pods are on although others have run pods, or "".
	OnlyNode string
	// Jobs are those of the object.
	Jobs []*batchv1.Job
	// Sources are the ConfigMaps that the spec refers to, by name, and Snapshots
	// the snapshots that belong to the object. Secrets are digests of the
	// Secrets that the spec refers to, nil if none may be read.
	Sources   map[string]configsource.Source
	Snapshots []*corev1.ConfigMap
	Secrets   map[string]configsource.SecretDigest
}

func (k Kind[T]) observe(ctx context.Context, r converge.Reader, obj T) (Observed, error) {
	o := Observed{Offline: r.Offline, Now: r.Now, Sources: r.Sources, Snapshots: r.Snapshots, Secrets: r.Secrets}
	var errs [4]error
	o.Observed, errs[0] = ObserveRollout(ctx, r, obj, obj.GetName(), k.PodLabel, k.Labels(obj))
	o.Children, errs[1] = observeChildren(ctx, r, obj, k.Web)
	o.Service, errs[2] = converge.GetOwned(ctx, r, obj, k.ServiceName(obj), &corev1.Service{})
	if k.Before {
		o.Jobs, errs[3] = listJobs(ctx, r, obj)
	}
	return o, errors.Join(errs[:]...)
}
