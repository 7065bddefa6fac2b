package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

var (
	webServers   = schema.GroupVersionResource{Group: "my.domain", Version: "v1", Resource: "webservers"}
	memcacheds   = schema.GroupVersionResource{Group: "cache.example.com", Version: "v1alpha1", Resource: "memcacheds"}
	applications = schema.GroupVersionResource{Group: "paas.cmft.com", Version: "v1", Resource: "demoapplications"}
	immortals    = schema.GroupVersionResource{Group: "immortalcontainer.flugel.it", Version: "v1alpha1", Resource: "immortalcontainers"}
	deployments  = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	configMaps   = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)

// id names an object.
type id struct {
	resource        schema.GroupVersionResource
	namespace, name string
}

// observed is what a client that watches has seen of an object.
type observed struct {
	// ready reports whether the object is ready in its latest generation, and readyAt
	// since when.
	ready   bool
	readyAt time.Time
	// image is the image of a Deployment, and imageAt since when.
	image   string
	imageAt time.Time
}

// observer watches Deployments and all kinds of the operator.
type observer struct {
	mu      sync.Mutex
	objects map[id]observed
}

func observe(ctx context.Context, client dynamic.Interface) (*observer, error) {
	o := &observer{objects: map[id]observed{}}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	for _, gvr := range []schema.GroupVersionResource{webServers, memcacheds, applications, immortals, deployments} {
		informer := factory.ForResource(gvr).Informer()
		// The store keeps no objects: what matters is in o.objects.
		if err := informer.SetTransform(keepMetadata(gvr, o)); err != nil {
			return nil, fmt.Errorf("watching %s: %w", gvr.Resource, err)
		}
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(obj any) { o.remove(gvr, obj) }}); err != nil {
			return nil, fmt.Errorf("watching %s: %w", gvr.Resource, err)
		}
	}
	factory.Start(ctx.Done())
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for gvr, ok := range factory.WaitForCacheSync(ctx.Done()) {
		if !ok {
			return nil, fmt.Errorf("%s cannot be listed", gvr.Resource)
		}
	}
	return o, nil
}

// keepMetadata notes the state of each object as soon as it is received, and drops all
// but its metadata.
func keepMetadata(gvr schema.GroupVersionResource, o *observer) cache.TransformFunc {
	return func(obj any) (any, error) {
		u, ok := obj.(*unstructured.Unstructured)
		if !ok {
			return obj, nil
		}
		o.note(gvr, u, time.Now())
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": u.GetAPIVersion(), "kind": u.GetKind(),
			"metadata": map[string]any{"namespace": u.GetNamespace(), "name": u.GetName(), "resourceVersion": u.GetResourceVersion()},
		}}, nil
	}
}

func (o *observer) note(gvr schema.GroupVersionResource, u *unstructured.Unstructured, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := id{gvr, u.GetNamespace(), u.GetName()}
	s := o.objects[key]
	if ready := isReady(gvr, u); ready != s.ready {
		s.ready, s.readyAt = ready, now
	}
	if gvr == deployments {
		containers, _, _ := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
		if len(containers) > 0 {
			if image, _ := containers[0].(map[string]any)["image"].(string); image != s.image {
				s.image, s.imageAt = image, now
			}
		}
	}
	o.objects[key] = s
}

func (o *observer) remove(gvr schema.GroupVersionResource, obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.objects, id{gvr, u.GetNamespace(), u.GetName()})
	}
}

// isReady reports whether all replicas of a Deployment are available, or else whether
// the condition Ready is True, in the latest generation.
func isReady(gvr schema.GroupVersionResource, u *unstructured.Unstructured) bool {
	if n, _, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration"); n != u.GetGeneration() {
		return false
	}
	if gvr == deployments {
		want, _, _ := unstructured.NestedInt64(u.Object, "spec", "replicas")
		for _, field := range []string{"replicas", "updatedReplicas", "availableReplicas"} {
			if n, _, _ := unstructured.NestedInt64(u.Object, "status", field); n != want {
				return false
			}
		}
		return true
	}
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == "Ready" {
			return c["status"] == "True"
		}
	}
	return false
}

func (o *observer) get(key id) (observed, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s, ok := o.objects[key]
	return s, ok
}

// readyTimes returns when each object became Ready, or false while one is not.
func (o *observer) readyTimes(keys []id) ([]time.Time, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	times := make([]time.Time, 0, len(keys))
	for _, k := range keys {
		s := o.objects[k]
		if !s.ready {
			return nil, false
		}
		times = append(times, s.readyAt)
	}
	return times, true
}

// imageTimes returns when each Deployment got its image, or false while one has
// another image.
func (o *observer) imageTimes(keys []id, image string) ([]time.Time, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	times := make([]time.Time, 0, len(keys))
	for _, k := range keys {
		s := o.objects[k]
		if s.image != image {
			return nil, false
		}
		times = append(times, s.imageAt)
	}
	return times, true
}

// wait polls until ok returns true. The times of events do not depend on it.
func wait(ctx context.Context, limit time.Duration, what string, ok func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errors.New("timed out after "+limit.String()))
	defer cancel()
	for !ok() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}
