package model

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	immortalv1alpha1 "github.com/platform-operator/platform-operator/apis/immortalcontainer/v1alpha1"
	cachev1alpha1 "github.com/platform-operator/platform-operator/apis/memcached/v1alpha1"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/controllers/demoapplication"
	"github.com/platform-operator/platform-operator/controllers/immortalcontainer"
	"github.com/platform-operator/platform-operator/controllers/memcached"
	"github.com/platform-operator/platform-operator/controllers/webserver"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/testkit"
	"github.com/platform-operator/platform-operator/webhooks"
)

// objectName is the name of the only object of a chain.
const objectName = "o"

// Kind is what the tester knows about one API kind, taken from its documentation.
type Kind struct {
	// Name is the name that kubectl accepts.
	Name string
	// GVK is the kind with group and version.
	GVK schema.GroupVersionKind
	// Replicas is the field of the spec that contains the number of pods; "" for a
	// kind that runs one pod.
	Replicas string
	// Image is the repository of an image that runs.
	Image string
	// Base is the spec that a chain starts from, as JSON. The deadline of rollouts
	// is as short as possible, because the operator waits for a part of it.
	Base string
	// Container is the name of the container that runs Image.
	Container string
	// Service is the name of the object's Service, "" for a kind without one.
	Service string
	// Workload is the kind and the name of the child that runs the pods.
	Workload Ref
	// Policy is the name of the object's NetworkPolicy.
	Policy string

	subject func(clock func() time.Time) testkit.Subject
}

// Ref names a child.
type Ref struct{ Kind, Name string }

func (r Ref) String() string { return strings.ToLower(r.Kind) + "/" + r.Name }

// platform is the platform configuration of all chains. The preferred node port is
// unset because it exists once in a cluster, and chains run in parallel.
func platform() config.Platform {
	p := config.Default()
	p.WebServer.NodePort = 0
	return p
}

// Kinds returns the kinds that chains are generated for.
func Kinds() []*Kind {
	return []*Kind{
		{
			Name: "webserver", GVK: webserverv1.GroupVersion.WithKind(webserverv1.Kind),
			Replicas: "replicas", Image: "nginx", Container: "webserver", Service: objectName + "-service",
			Base:     `{"image":"nginx:1.27.1","service":{"type":"ClusterIP"},"rollout":{"progressDeadlineSeconds":1}}`,
			Workload: Ref{"Deployment", objectName}, Policy: objectName,
			subject: of(func(func() time.Time) converge.AnyKind { return webserver.Kind(platform()) }),
		},
		{
			Name: "demoapplication", GVK: demoapplicationv1.GroupVersion.WithKind(demoapplicationv1.Kind),
			Replicas: "replica", Image: "nginx", Container: objectName, Service: objectName,
			Base:     `{"image":"nginx:1.27.1","ports":[{"port":80}],"rollout":{"progressDeadlineSeconds":1}}`,
			Workload: Ref{"Deployment", objectName}, Policy: objectName,
			subject: of(func(func() time.Time) converge.AnyKind { return demoapplication.Kind(platform()) }),
		},
		{
			Name: "memcached", GVK: cachev1alpha1.GroupVersion.WithKind(cachev1alpha1.Kind),
			Replicas: "size", Image: "memcached", Container: "memcached", Service: objectName,
			Base:     `{"image":"memcached:1.27.1","size":2,"rollout":{"progressDeadlineSeconds":1}}`,
			Workload: Ref{"Deployment", objectName}, Policy: objectName,
			subject: of(func(func() time.Time) converge.AnyKind { return memcached.Kind(platform()) }),
		},
		{
			Name: "immortalcontainer", GVK: immortalv1alpha1.GroupVersion.WithKind(immortalv1alpha1.Kind),
			Image: "nginx", Container: "acontainer",
			Base:     `{"image":"nginx:1.27.1"}`,
			Workload: Ref{"Pod", objectName + "-immortalpod"}, Policy: objectName + "-immortalpod",
			subject: of(func(clock func() time.Time) converge.AnyKind { return immortalcontainer.Kind(clock, platform()) }),
		},
	}
}

func of(kind func(clock func() time.Time) converge.AnyKind) func(func() time.Time) testkit.Subject {
	return func(clock func() time.Time) testkit.Subject {
		return testkit.SubjectOf(func() converge.AnyKind { return kind(clock) })
	}
}

// manifest returns an object of the kind.
func (k *Kind) manifest(namespace string, spec map[string]any) map[string]any {
	return map[string]any{
		"apiVersion": k.GVK.GroupVersion().String(), "kind": k.GVK.Kind,
		"metadata": map[string]any{"name": objectName, "namespace": namespace}, "spec": spec,
	}
}

// validate returns the errors of the kind's webhook about an object, without the
// webhook.
func (k *Kind) validate(o map[string]any) (field.ErrorList, error) {
	for _, w := range webhooks.Kinds() {
		if w.GVK != k.GVK {
			continue
		}
		typed := w.New()
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o, typed); err != nil {
			return nil, fmt.Errorf("decoding the object: %w", err)
		}
		return w.Validate(typed, platform()), nil
	}
	return nil, fmt.Errorf("%s has no webhook", k.GVK)
}

func (k *Kind) empty() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(k.GVK)
	return u
}

// hasDeployment reports whether a Deployment runs the pods.
func (k *Kind) hasDeployment() bool { return k.Workload.Kind == "Deployment" }

// kindNamed returns a kind by its name.
func kindNamed(name string) (*Kind, error) {
	for _, k := range Kinds() {
		if k.Name == name {
			return k, nil
		}
	}
	return nil, fmt.Errorf("there is no kind %q", name)
}
