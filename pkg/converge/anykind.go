package converge

import (
	"context"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/pkg/configsource"
)

// AnyKind is a Kind without its type parameters, so that kinds can be listed. Its
// functions accept only objects of one type.
type AnyKind struct{ Kind[Object, any] }

// Erase returns a kind without its type parameters.
func Erase[T Object, S any](k Kind[T, S]) AnyKind {
	e := Kind[Object, any]{
		New: func() Object { return k.New() }, NewList: k.NewList, AddToScheme: k.AddToScheme,
		Children: k.Children, Optional: k.Optional, Watches: k.Watches, Unowned: k.Unowned,
		Log: k.Log, Groups: k.Groups,
		Limiter: k.Limiter, Claims: k.Claims,
		Paused:  func(o Object) bool { return k.Paused != nil && k.Paused(o.(T)) },
		Observe: func(ctx context.Context, r Reader, o Object) (any, error) { return k.Observe(ctx, r, o.(T)) },
		Model: func(o Object, observed any) Model {
			s, _ := observed.(S) // a nil interface if S is one
			return k.Model(o.(T), s)
		},
	}
	if k.References != nil {
		e.References = func(o Object) []configsource.Reference { return k.References(o.(T)) }
	}
	if k.Secrets != nil {
		e.Secrets = func(o Object) []string { return k.Secrets(o.(T)) }
	}
	if k.Labels != nil {
		e.Labels = func(o Object) map[string]string { return k.Labels(o.(T)) }
	}
	return AnyKind{e}
}

// Name returns the name of the kind, as schemes derive it.
func (k AnyKind) Name() string { return kindOf(k.New()) }

// kindOf returns the kind of an object, as schemes derive it from the type.
func kindOf(o client.Object) string { return reflect.TypeOf(o).Elem().Name() }

// MessageKinds returns the name of the kind and its groups, as package message uses them.
func (k AnyKind) MessageKinds() []string { return append([]string{k.Name()}, k.Groups...) }

// Watched returns an empty object of every type that the kind's caches hold in
// every cluster.
func (k AnyKind) Watched() []client.Object {
	all := slices.Clone(k.Children)
	for _, r := range k.Watches {
		all = append(all, r.Object)
	}
	return all
}

// ObserveModel reads what the model of an object depends on, including the
// ConfigMaps and Secrets that it refers to, and returns the model. Without refs it does not
// read these, which is sufficient to name the children.
func (k AnyKind) ObserveModel(ctx context.Context, r Reader, refs *configsource.Reader, obj Object) (Model, error) {
	if k.References != nil {
		var err error
		if r.Snapshots, err = configsource.OwnedConfigMaps(ctx, r, obj); err != nil {
			return nil, err
		}
	}
	if refs != nil && k.References != nil {
		r.Sources = refs.ConfigMaps(ctx, obj, k.References(obj), r.Snapshots)
	}
	if refs != nil && k.Secrets != nil {
		r.Secrets = refs.Secrets(ctx, obj, k.Secrets(obj))
	}
	return k.modelOf(ctx, r, obj)
}

// Offline returns the model of an object as if it had just been created in a
// cluster in which only the given ConfigMaps exist.
func (k AnyKind) Offline(ctx context.Context, obj Object, sources map[string]configsource.Source) (Model, error) {
	return k.modelOf(ctx, Reader{Reader: noObjects{}, Sources: sources, Offline: true}, obj)
}

func (k AnyKind) modelOf(ctx context.Context, r Reader, obj Object) (Model, error) {
	observed, err := k.Observe(ctx, r, obj)
	if err != nil {
		return nil, err
	}
	return k.Model(obj, observed), nil
}

// noObjects is a cluster without objects.
type noObjects struct{}

// Get returns a NotFound error.
func (noObjects) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

// List leaves the list empty.
func (noObjects) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }
