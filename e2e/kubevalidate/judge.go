package main

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/apps"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"        // into legacyscheme
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install" // into legacyscheme
	"k8s.io/kubernetes/pkg/apis/batch"
	_ "k8s.io/kubernetes/pkg/apis/batch/install" // into legacyscheme
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"       // into legacyscheme
	_ "k8s.io/kubernetes/pkg/apis/networking/install" // into legacyscheme
	_ "k8s.io/kubernetes/pkg/apis/policy/install"     // into legacyscheme
	"k8s.io/kubernetes/pkg/registry/apps/controllerrevision"
	"k8s.io/kubernetes/pkg/registry/apps/deployment"
	"k8s.io/kubernetes/pkg/registry/autoscaling/horizontalpodautoscaler"
	"k8s.io/kubernetes/pkg/registry/batch/job"
	"k8s.io/kubernetes/pkg/registry/core/configmap"
	"k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/pkg/registry/core/service"
	"k8s.io/kubernetes/pkg/registry/networking/ingress"
	"k8s.io/kubernetes/pkg/registry/networking/networkpolicy"
	"k8s.io/kubernetes/pkg/registry/policy/poddisruptionbudget"
)

// strategy is what the API server asks before it stores an object.
type strategy interface {
	rest.RESTCreateStrategy
	rest.RESTUpdateStrategy
}

// resource is a type as the API server serves it.
type resource struct {
	strategy
	name string
}

func resources() map[schema.GroupKind]resource {
	return map[schema.GroupKind]resource{
		{Kind: "ConfigMap"}: {configmap.Strategy, "configmaps"},
		{Kind: "Pod"}:       {pod.Strategy, "pods"},
		{Kind: "Service"}:   {service.Strategy, "services"},
		{Group: "apps", Kind: "ControllerRevision"}:             {controllerrevision.Strategy, "controllerrevisions"},
		{Group: "apps", Kind: "Deployment"}:                     {deployment.Strategy, "deployments"},
		{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}: {horizontalpodautoscaler.Strategy, "horizontalpodautoscalers"},
		{Group: "batch", Kind: "Job"}:                           {job.Strategy, "jobs"},
		{Group: "networking.k8s.io", Kind: "Ingress"}:           {ingress.Strategy, "ingresses"},
		{Group: "networking.k8s.io", Kind: "NetworkPolicy"}:     {networkpolicy.Strategy, "networkpolicies"},
		{Group: "policy", Kind: "PodDisruptionBudget"}:          {poddisruptionbudget.Strategy, "poddisruptionbudgets"},
	}
}

// A field that this Kubernetes does not know is an error, as for server-side apply.
var decoder = serializer.NewCodecFactory(legacyscheme.Scheme, serializer.EnableStrict).UniversalDecoder()

func judge(q question) error {
	var stored runtime.Object
	if q.Old != nil {
		var err error
		if stored, err = store(q.Old, nil); err != nil {
			return fmt.Errorf("the old one: %w", err)
		}
	}
	now, err := store(q.New, stored)
	if err != nil {
		return err
	}
	return podsOf(now)
}

// store does what the API server does with an object before it is stored, and
// returns what is stored.
func store(raw []byte, old runtime.Object) (runtime.Object, error) {
	obj, gvk, err := decoder.Decode(raw, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("decoding: %w", err)
	}
	r, ok := resources()[gvk.GroupKind()]
	if !ok {
		return nil, fmt.Errorf("%s is not among the types that are judged here", gvk.GroupKind())
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	ctx := genericapirequest.WithRequestInfo(
		genericapirequest.WithNamespace(context.Background(), m.GetNamespace()),
		&genericapirequest.RequestInfo{
			IsResourceRequest: true, APIGroup: gvk.Group, APIVersion: gvk.Version,
			Resource: r.name, Namespace: m.GetNamespace(), Name: m.GetName(),
		})
	m.SetUID(types.UID("00000000-0000-0000-0000-" + r.name))
	m.SetCreationTimestamp(metav1.Unix(1, 0))
	if svc, ok := obj.(*core.Service); ok {
		allocate(svc)
	}
	if old == nil {
		return obj, rest.BeforeCreate(r, ctx, obj)
	}
	m.SetResourceVersion("1")
	was, err := meta.Accessor(old)
	if err != nil {
		return nil, err
	}
	was.SetResourceVersion("1")
	return obj, rest.BeforeUpdate(r, ctx, obj, old)
}

// allocate gives a Service what it would have got before it is validated.
func allocate(s *core.Service) {
	if s.Spec.Type == core.ServiceTypeExternalName {
		return
	}
	if s.Spec.ClusterIP == "" {
		s.Spec.ClusterIP = "10.96.0.2"
	}
	if s.Spec.Type == core.ServiceTypeLoadBalancer && s.Spec.ExternalTrafficPolicy == core.ServiceExternalTrafficPolicyLocal && s.Spec.HealthCheckNodePort == 0 {
		s.Spec.HealthCheckNodePort = 32000
	}
	single := core.IPFamilyPolicySingleStack
	s.Spec.ClusterIPs, s.Spec.IPFamilies, s.Spec.IPFamilyPolicy = []string{s.Spec.ClusterIP}, []core.IPFamily{core.IPv4Protocol}, &single
}

// podsOf judges the pods that a Deployment or a Job leads to: there are rules of pods
// that a template need not obey.
func podsOf(obj runtime.Object) error {
	var template core.PodTemplateSpec
	var namespace string
	switch o := obj.(type) {
	case *apps.Deployment:
		template, namespace = *o.Spec.Template.DeepCopy(), o.Namespace
	case *batch.Job:
		template, namespace = *o.Spec.Template.DeepCopy(), o.Namespace
	default:
		return nil
	}
	p := &core.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	p.Namespace, p.Name, p.UID, p.CreationTimestamp = namespace, "pod", "1", metav1.Unix(1, 0)
	if err := rest.BeforeCreate(pod.Strategy, genericapirequest.WithNamespace(context.Background(), namespace), p); err != nil {
		return fmt.Errorf("its pods: %w", err)
	}
	return nil
}
