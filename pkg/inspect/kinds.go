package inspect

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Kind is a kind of objects. It is read as its CustomResourceDefinition describes it, so that
// the command line does not depend on what the operator does with the objects.
type Kind struct {
	schema.GroupVersionKind

	// Names are the names that kubectl accepts: singular, plural and short ones.
	// The first one is printed.
	Names []string
	// fields are the fields of the spec.
	fields map[string]apiextensionsv1.JSONSchemaProps
}

// KindsOf returns the kinds that CustomResourceDefinitions define, in their stored versions.
func KindsOf(defs []apiextensionsv1.CustomResourceDefinition) Kinds {
	var all Kinds
	for _, d := range defs {
		for _, v := range d.Spec.Versions {
			if n := d.Spec.Names; v.Storage {
				all = append(all, Kind{
					GroupVersionKind: schema.GroupVersionKind{Group: d.Spec.Group, Version: v.Name, Kind: n.Kind},
					Names:            slices.Concat([]string{n.Singular, n.Plural}, n.ShortNames),
					fields:           v.Schema.OpenAPIV3Schema.Properties["spec"].Properties,
				})
			}
		}
	}
	return all
}

// Has reports whether the spec has a field.
func (k Kind) Has(field string) bool {
	_, has := k.fields[field]
	return has
}

// New returns an empty object.
func (k Kind) New() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(k.GroupVersionKind)
	return u
}

// children are empty objects of the types that the operator creates, whatever the kind.
var children = []client.Object{
	&appsv1.Deployment{}, &corev1.Pod{}, &appsv1.ControllerRevision{}, &corev1.Service{}, &policyv1.PodDisruptionBudget{}, &networkingv1.NetworkPolicy{},
	&autoscalingv2.HorizontalPodAutoscaler{}, &networkingv1.Ingress{}, &corev1.ConfigMap{}, &batchv1.Job{},
}

// optional are types of children that not every cluster serves, by the field of the spec that
// requests them.
var optional = map[string]client.Object{
	"expose":     partial("gateway.networking.k8s.io/v1", "HTTPRoute"),
	"monitoring": partial("monitoring.coreos.com/v1", "PodMonitor"),
}

// Children returns empty objects of all types of children.
func Children() []client.Object {
	return slices.AppendSeq(slices.Clone(children), maps.Values(optional))
}

func partial(apiVersion, kind string) client.Object {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}}
}

// Kinds are the kinds of the operator.
type Kinds []Kind

// find returns the kind with a name, as kubectl accepts it: in upper or lower
// case, and with or without the group.
func (k Kinds) find(name string) (Kind, error) {
	name = strings.ToLower(name)
	for _, kind := range k {
		if slices.ContainsFunc(kind.Names, func(n string) bool { return name == n || name == n+"."+kind.Group }) {
			return kind, nil
		}
	}
	return Kind{}, fmt.Errorf("%q is not a kind of this operator: use %s", name, strings.Join(k.names(), ", "))
}

func (k Kinds) names() []string {
	var all []string
	for _, kind := range k {
		all = append(all, kind.Names[0])
	}
	slices.Sort(all)
	return all
}

// Reference is the name of an object on the command line.
type Reference struct {
	Kind Kind
	Name string
}

// Parse returns the object that arguments name, as KIND/NAME or as KIND NAME.
func (k Kinds) Parse(args ...string) (Reference, error) {
	kind, name, _ := strings.Cut(args[0], "/")
	if len(args) > 1 {
		if name != "" {
			return Reference{}, fmt.Errorf("%q: name one object, such as %s/shop", strings.Join(args, " "), cmp.Or(kind, "webserver"))
		}
		name = args[1]
	}
	found, err := k.find(kind)
	if err != nil {
		return Reference{}, err
	}
	if name == "" {
		return Reference{}, fmt.Errorf("%q names no object: use KIND/NAME, such as %s/shop", strings.Join(args, " "), found.Names[0])
	}
	return Reference{found, name}, nil
}

// key returns the name of an object in a namespace.
func (r Reference) key(namespace string) client.ObjectKey {
	return client.ObjectKey{Namespace: namespace, Name: r.Name}
}

// String returns the reference as users type it.
func (r Reference) String() string { return r.Kind.Names[0] + "/" + r.Name }

// Names returns the names of the objects of a kind in a namespace, sorted.
func (i Inspector) Names(ctx context.Context, namespace, kind string) ([]string, error) {
	k, err := i.Kinds.find(kind)
	if err != nil {
		return nil, err
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(k.GroupVersion().WithKind(k.Kind + "List"))
	if err := i.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing %s: %w", k.Names[1], err)
	}
	var names []string
	for _, item := range list.Items {
		names = append(names, item.GetName())
	}
	slices.Sort(names)
	return names, nil
}
