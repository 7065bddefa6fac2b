// Package caches contains the caches that the controllers read from. They hold many
// objects in little memory: only those that matter, reduced to what is compared or
// reported, and the most frequent types as compressed protobuf.
package caches

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// caches combines two caches. The cache of whole objects contains only objects
// with the label of children, except for the operator's own kinds and those
// that unownedTypes returns. The cache of *metav1.PartialObjectMetadata contains all
// objects in the same namespaces, with or without the label, but only their
// identity and version. It is used to observe users' objects that the
// operator's objects refer to. Neither starts a watch before a controller
// requests its events.
type caches struct {
	cache.Cache
	metadata cache.Cache
	// namespaces is nil if all namespaces are watched.
	namespaces *namespaces
}

// New returns the caches of a manager. o are those of Options, with what the manager adds.
func New(cfg *rest.Config, o cache.Options) (cache.Cache, error) {
	var watched *namespaces
	if len(o.DefaultNamespaces) > 0 {
		var err error
		if watched, err = newNamespaces(cfg, &o); err != nil {
			return nil, err
		}
	}
	unpacked := o.NewInformer
	o.NewInformer = newPackedInformers(o.Scheme, unpacked).newInformer
	whole, err := cache.New(cfg, o)
	if err != nil {
		return nil, err
	}
	o.ByObject, o.DefaultLabelSelector, o.NewInformer = nil, nil, unpacked // they are for whole objects
	o.DefaultTransform = stripToVersion
	metadata, err := cache.New(cfg, o)
	if err != nil {
		return nil, fmt.Errorf("making the cache of metadata: %w", err)
	}
	return caches{whole, metadata, watched}, nil
}

// of returns the cache for objects or lists of o's type.
func (c caches) of(o any) cache.Cache {
	switch o.(type) {
	case *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList:
		return c.metadata
	}
	return c.Cache
}

// Get reads an object.
func (c caches) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return c.of(o).Get(ctx, key, o, opts...)
}

// List reads objects.
func (c caches) List(ctx context.Context, l client.ObjectList, opts ...client.ListOption) error {
	return c.of(l).List(ctx, l, opts...)
}

// GetInformer returns the informer for objects of o's type.
func (c caches) GetInformer(ctx context.Context, o client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	return c.of(o).GetInformer(ctx, o, opts...)
}

// RemoveInformer ends the informer for objects of o's type.
func (c caches) RemoveInformer(ctx context.Context, o client.Object) error {
	return c.of(o).RemoveInformer(ctx, o)
}

// IndexField adds an index over objects of o's type.
func (c caches) IndexField(ctx context.Context, o client.Object, field string, values client.IndexerFunc) error {
	return c.of(o).IndexField(ctx, o, field, values)
}

// Start runs both caches until ctx ends.
func (c caches) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if c.namespaces != nil {
		go c.namespaces.Start(ctx)
	}
	ended := make(chan error, 2)
	for _, one := range []cache.Cache{c.Cache, c.metadata} {
		go func() {
			defer cancel() // neither is useful without the other
			ended <- one.Start(ctx)
		}()
	}
	return errors.Join(<-ended, <-ended)
}

// WaitForCacheSync waits until both caches have synced.
func (c caches) WaitForCacheSync(ctx context.Context) bool {
	return c.Cache.WaitForCacheSync(ctx) && c.metadata.WaitForCacheSync(ctx)
}

// stripToVersion removes all metadata from an object except its identity and
// version.
func stripToVersion(in any) (any, error) {
	if o, ok := in.(*metav1.PartialObjectMetadata); ok {
		o.ObjectMeta = metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion}
	}
	return in, nil
}
