//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
)

// reader reads objects for those who wait for a change. A kubectl for each attempt takes
// processor time from the pods that are waited for.
type reader struct {
	objects   dynamic.Interface
	resources meta.RESTMapper
}

// newReader returns a reader of the cluster that kubectl uses too.
func newReader(t *testing.T) reader {
	t.Helper()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err != nil {
		t.Fatalf("read the kubeconfig: %v", err)
	}
	config.QPS = -1 // the waits themselves limit the rate
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	cached := memory.NewMemCacheClient(client)
	return reader{objects, restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(cached), cached, nil)}
}

// get reads an object, such as webserver/web, in the notation of kubectl.
func (r reader) get(ctx context.Context, ns, object string) (objectOf, error) {
	var o objectOf
	resource, name, ok := strings.Cut(object, "/")
	if !ok {
		return o, fmt.Errorf("%q is not a resource and a name", object)
	}
	gvr, err := r.resources.ResourceFor(schema.GroupVersionResource{Resource: resource})
	if err != nil {
		return o, fmt.Errorf("find the resource of %s: %w", object, err)
	}
	u, err := r.objects.Resource(gvr).Namespace(ns).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return o, fmt.Errorf("get %s: %w", object, err)
	}
	raw, err := u.MarshalJSON()
	if err == nil {
		err = json.Unmarshal(raw, &o)
	}
	if err != nil {
		return o, fmt.Errorf("read %s: %w", object, err)
	}
	return o, nil
}
