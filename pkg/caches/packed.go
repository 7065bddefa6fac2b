package caches

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// packedTypes are the types whose objects the caches hold encoded, because
// there are many. A decoded Deployment has five times as many bytes, most of
// which are pointers that each garbage collection follows, and a copy of it
// takes as long as decoding it. Every cluster serves these types.
func packedTypes() []client.Object {
	return []client.Object{
		&appsv1.Deployment{}, &appsv1.ControllerRevision{}, &corev1.Pod{}, &corev1.Service{}, &policyv1.PodDisruptionBudget{}, &corev1.ConfigMap{},
	}
}

// isPacked reports whether an object has one of these types.
func isPacked(o any) bool { return packs[reflect.TypeOf(o)] }

var packs = func() map[reflect.Type]bool {
	types := map[reflect.Type]bool{}
	for _, o := range packedTypes() {
		types[reflect.TypeOf(o)] = true
	}
	return types
}()

// largestConfigMap is the size in bytes up to which a ConfigMap is held encoded. Every
// reconcile reads the content of snapshots, and its cost must not depend on their size.
const largestConfigMap = 4 << 10

// mayBeLarge reports whether objects of a type may be too large to be held encoded.
func mayBeLarge(t reflect.Type) bool { return t == reflect.TypeFor[*corev1.ConfigMap]() }

// packed is an object as an informer holds it. It has only what the informer
// asks for; calling another method of metav1.Object panics.
type packed struct {
	metav1.Object

	namespace, name, version string
	raw                      []byte // protobuf
	compressed               bool
}

func (p *packed) GetNamespace() string       { return p.namespace }
func (p *packed) GetName() string            { return p.name }
func (p *packed) GetResourceVersion() string { return p.version }

// encoded are the methods that the types in packedTypes have.
type encoded interface {
	client.Object
	metav1.ObjectMetaAccessor
	Size() int // the bytes that Marshal returns
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// packer packs and unpacks the objects of one type.
type packer struct {
	of    reflect.Type // the struct
	kind  schema.GroupVersionKind
	names *interner
	compressor
}

func (p *packer) pack(in any) (any, error) {
	o, ok := in.(encoded)
	if !ok {
		return in, nil // packed already, or a tombstone
	}
	if mayBeLarge(reflect.TypeOf(in)) && o.Size() > largestConfigMap {
		return in, nil
	}
	raw, err := o.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encoding %T %q: %w", o, o.GetName(), err)
	}
	c := &packed{namespace: p.names.of(o.GetNamespace()), name: o.GetName(), version: o.GetResourceVersion()}
	c.raw, c.compressed = p.compress(raw)
	return c, nil
}

// decode calls f with the encoded object, which f must not keep.
func (p *packer) decode(c *packed, f func(raw []byte) error) error {
	if !c.compressed {
		return f(c.raw)
	}
	return p.read(c.raw, f)
}

// unpack returns the object, which belongs to the caller unless it is a large ConfigMap.
func (p *packer) unpack(in any) any {
	c, ok := in.(*packed)
	if !ok {
		return in
	}
	o := reflect.New(p.of).Interface().(encoded)
	if err := p.decode(c, o.Unmarshal); err != nil {
		panic(fmt.Errorf("decoding %T %q, which this process has encoded: %w", o, c.name, err))
	}
	o.GetObjectKind().SetGroupVersionKind(p.kind)
	return o
}

// identify returns an object that has only its metadata.
func (p *packer) identify(in any) any {
	switch c := in.(type) {
	case *packed:
		o := reflect.New(p.of).Interface().(encoded)
		metadata := o.GetObjectMeta().(*metav1.ObjectMeta)
		if err := p.decode(c, func(raw []byte) error { return decodeMetadata(raw, metadata) }); err != nil {
			panic(fmt.Errorf("decoding the metadata of %T %q, which this process has encoded: %w", o, c.name, err))
		}
		return o
	case toolscache.DeletedFinalStateUnknown:
		c.Obj = p.identify(c.Obj)
		return c
	default:
		return in
	}
}

// decodeMetadata decodes the metadata of an encoded object. It is the first
// field of all types.
func decodeMetadata(raw []byte, into *metav1.ObjectMeta) error {
	number, kind, tag := protowire.ConsumeTag(raw)
	if tag < 0 || number != 1 || kind != protowire.BytesType {
		return errors.New("it does not begin with metadata")
	}
	metadata, n := protowire.ConsumeBytes(raw[tag:])
	if n < 0 {
		return protowire.ParseError(n)
	}
	return into.Unmarshal(metadata)
}

// newInformer returns an informer for objects of the type of example.
type newInformer func(lw toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer

// packedInformers are the informers of one cache that hold packed objects.
type packedInformers struct {
	scheme *runtime.Scheme
	// unpacked makes the informers that are packed.
	unpacked newInformer
	names    interner

	mu sync.Mutex
	// packers are those of the types. Informers of several namespaces share one.
	packers map[reflect.Type]*packer
}

func newPackedInformers(scheme *runtime.Scheme, unpacked newInformer) *packedInformers {
	if unpacked == nil {
		unpacked = toolscache.NewSharedIndexInformer
	}
	return &packedInformers{scheme: scheme, unpacked: unpacked, packers: map[reflect.Type]*packer{}}
}

// newInformer returns an informer that packs the objects if there are many of their type.
func (p *packedInformers) newInformer(lw toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	i := p.unpacked(lw, example, resync, indexers)
	kinds, _, err := p.scheme.ObjectKinds(example)
	if err != nil || !isPacked(example) {
		return i
	}
	t := reflect.TypeOf(example)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.packers[t] == nil {
		p.packers[t] = &packer{of: t.Elem(), kind: kinds[0], names: &p.names}
	}
	return packedInformer{i, p.packers[t]}
}

// packedInformer is an informer that holds packed objects. Reads return decoded
// ones; events and functions of indexes get objects that have only their metadata.
type packedInformer struct {
	toolscache.SharedIndexInformer
	*packer
}

// SetTransform sets a function that is called before an object is packed.
func (i packedInformer) SetTransform(transform toolscache.TransformFunc) error {
	return i.SharedIndexInformer.SetTransform(func(in any) (any, error) {
		if _, again := in.(*packed); again {
			return in, nil
		}
		in, err := transform(in)
		if err != nil {
			return nil, err
		}
		return i.pack(in)
	})
}

// AddEventHandler adds a handler, whose objects have only their metadata.
func (i packedInformer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandler(identifying{i.packer, h})
}

// AddEventHandlerWithResyncPeriod is AddEventHandler with a period.
func (i packedInformer) AddEventHandlerWithResyncPeriod(h toolscache.ResourceEventHandler, resync time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithResyncPeriod(identifying{i.packer, h}, resync)
}

// AddEventHandlerWithOptions is AddEventHandler with options.
func (i packedInformer) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler, o toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithOptions(identifying{i.packer, h}, o)
}

// allNamespaces begins the values of indexes by which controller-runtime finds
// objects in all namespaces.
const allNamespaces = "__all_namespaces/"

// AddIndexers adds indexes, whose functions get objects that have only their metadata.
// Objects are found by an index only in one namespace, because each value of an index
// needs a few hundred bytes.
func (i packedInformer) AddIndexers(all toolscache.Indexers) error {
	identified := toolscache.Indexers{}
	for name, values := range all {
		identified[name] = func(o any) ([]string, error) {
			found, err := values(i.identify(o))
			return slices.DeleteFunc(found, func(v string) bool { return strings.HasPrefix(v, allNamespaces) }), err
		}
	}
	return i.SharedIndexInformer.AddIndexers(identified)
}

// GetIndexer returns the decoded objects.
func (i packedInformer) GetIndexer() toolscache.Indexer {
	return unpacking{i.SharedIndexInformer.GetIndexer(), i.packer}
}

// GetStore is GetIndexer.
func (i packedInformer) GetStore() toolscache.Store { return i.GetIndexer() }

// identifying is a handler of the events of packed objects.
type identifying struct {
	*packer
	handler toolscache.ResourceEventHandler
}

// OnAdd handles a new object.
func (i identifying) OnAdd(o any, initial bool) { i.handler.OnAdd(i.identify(o), initial) }

// OnUpdate handles a change.
func (i identifying) OnUpdate(before, after any) {
	i.handler.OnUpdate(i.identify(before), i.identify(after))
}

// OnDelete handles a deletion.
func (i identifying) OnDelete(o any) { i.handler.OnDelete(i.identify(o)) }

// unpacking is an indexer of packed objects, of which only the reads are used.
type unpacking struct {
	toolscache.Indexer
	*packer
}

func (u unpacking) all(in []any, err error) ([]any, error) {
	for i, o := range in {
		in[i] = u.unpack(o)
	}
	return in, err
}

// List returns all objects.
func (u unpacking) List() []any {
	all, _ := u.all(u.Indexer.List(), nil)
	return all
}

// Get returns the object with the key of another one.
func (u unpacking) Get(of any) (any, bool, error) {
	o, ok, err := u.Indexer.Get(of)
	return u.unpack(o), ok, err
}

// GetByKey returns an object.
func (u unpacking) GetByKey(key string) (any, bool, error) {
	o, ok, err := u.Indexer.GetByKey(key)
	return u.unpack(o), ok, err
}

// Index returns the objects that have a value of an index in common with another one.
func (u unpacking) Index(name string, with any) ([]any, error) {
	return u.all(u.Indexer.Index(name, with))
}

// ByIndex returns the objects with a value of an index.
func (u unpacking) ByIndex(name, value string) ([]any, error) {
	if strings.HasPrefix(value, allNamespaces) {
		return nil, fmt.Errorf("%s are found by %q only in one namespace", u.kind.Kind, name)
	}
	return u.all(u.Indexer.ByIndex(name, value))
}
