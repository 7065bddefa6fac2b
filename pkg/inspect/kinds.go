package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/pkg/converge"
)

// Kind is a kind of objects, with the names by which users refer to it.
type Kind struct {
	converge.AnyKind
	// Name is the name in manifests, such as WebServer.
	Name string
	// Group is the API group.
	Group string
	// Names are the names that kubectl accepts: singular, plural and short ones.
	// The first one is printed.
	Names []string
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
	list := k.NewList()
	if err := i.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing %s: %w", k.Names[1], err)
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", k.Names[1], err)
	}
	var names []string
	for _, item := range items {
		names = append(names, item.(client.Object).GetName())
	}
	slices.Sort(names)
	return names, nil
}
