package apply

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"reflect"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/pkg/naming"
)

// hashVersion is the version of how an intent is hashed. Changing it costs one
// request a child after the next upgrade, so it changes only when the hash of
// the same intent would.
const hashVersion = "1"

// Configuration is a typed apply configuration of a namespaced object, such as
// *DeploymentApplyConfiguration.
type Configuration[C any] interface {
	runtime.ApplyConfiguration
	GetName() *string
	GetNamespace() *string
	GetKind() *string
	WithLabels(map[string]string) C
	WithAnnotations(map[string]string) C
	WithOwnerReferences(...*metav1ac.OwnerReferenceApplyConfiguration) C
	WithUID(types.UID) C
	WithResourceVersion(string) C
}

// Intent is one child as it should be. It is used once: applying it writes the
// server's answer back into the configuration, so a kind builds its intents
// anew in every pass.
type Intent struct {
	// Kind, Namespace and Name identify the child.
	Kind, Namespace, Name string
	// Exclusive lists the paths that may hold nothing but what is stated, and
	// the API server's defaults, such as "spec.ports", "spec.template.spec.hostPID"
	// or "spec.template.spec.containers[webserver].env". A path that ends in [],
	// such as "spec.template.spec.containers[]", is that of a list of named
	// elements that may hold no other elements; unstated fields of the stated
	// ones stay. Everywhere else additions by others stay.
	Exclusive []string
	// Fallback is tried, once, when the server refuses this intent: it returns
	// what to apply instead. Nil, or a false, leaves the refusal as it is.
	Fallback func(refused error) (Intent, bool)
	// Patience is for how long a refusal that has a fallback is taken for
	// passing: what was just deleted may not have let go of everything yet.
	Patience time.Duration
	// Replace tells whether a refusal means that what stands cannot become what
	// is stated, so that it has to be deleted and made anew. Nil: never.
	Replace func(refused error) bool
	// HashAs, where set, is hashed in the place of this intent. It leaves out
	// what is stated only to keep it as it is, such as a node port that
	// Kubernetes allocated: learning the value is then no reason to write.
	HashAs *Intent
	// HandOver returns, of a child that stands, what is about to be stated no
	// longer and has to stay as it is; nil where there is nothing. It is
	// applied first, under a field manager of its own.
	HandOver func(live client.Object) runtime.ApplyConfiguration
	// IfKnown says that the child is left out, without a word, in a cluster
	// that does not know its type.
	IfKnown bool
	// Unmade says that the child has never been made: where it does not stand,
	// nobody has deleted it, and the owner need not be asked after.
	Unmade bool
	// Bound says that the child is of no use without its owner: where the
	// deletion policy is Orphan it goes all the same.
	Bound bool
	// OnRelease, if set, changes a child that is released so that it works
	// without the operator. The change is part of the releasing request.
	OnRelease func(live client.Object)
	// Seen, where set, is the UID of what stood when the intent was made, "" for
	// nothing. Where that is not so any more nothing is written: what is right
	// for a pod that runs may be wrong for one that has to be made.
	Seen *types.UID
	// Accompanies lists children that this one is of no use without, such as
	// the Deployment that an autoscaler scales. It is not written while one of
	// them belongs to another owner: two objects that want the same children
	// would otherwise end up with some of them each. Any other failure of theirs
	// does not affect it.
	Accompanies []Ref
	// Requires lists children that must have been applied without an error in
	// the same reconcile before this one is written. They come earlier in the
	// plan; one that the plan does not have is not required.
	Requires []Ref
	// CreateAfter is Requires for a child that does not exist yet. One that
	// exists is written in any case.
	CreateAfter []Ref
	// Otherwise returns the intent to apply if a child in Requires was not
	// applied, or false for none. The alternative requires nothing.
	Otherwise func() (Intent, bool)
	// IfExists returns what to apply instead if the child turns out to exist
	// although it was not observed as the owner's: what a child is created with
	// may be wrong for one that serves. Nil: the same.
	IfExists func(live client.Object) Intent
	// Exists says that the child exists, although the cache does not hold it. It
	// is never created.
	Exists bool
	// Changes are log lines about what this intent changes, written only when
	// it is really sent.
	Changes []Change

	config   runtime.ApplyConfiguration
	newLive  func() client.Object
	notes    map[string]string // by Annotate
	decorate func(owner types.UID, refs []*metav1ac.OwnerReferenceApplyConfiguration)
	note     func(key, value string)
	annotate func(hash string)
	withUID  func(types.UID)
	withRV   func(string)
}

// Ref identifies a child in the namespace of its owner.
type Ref struct{ Kind, Name string }

// Change is a log line with its keys and values.
type Change struct {
	Message       string
	KeysAndValues []any
}

// New makes an intent from a typed apply configuration; live is an empty
// object of the same type, which the child is read into.
func New[C Configuration[C], L client.Object](config C, live func() L) Intent {
	return Intent{
		Kind:      deref(config.GetKind()),
		Namespace: deref(config.GetNamespace()),
		Name:      deref(config.GetName()),
		config:    config,
		notes:     map[string]string{},
		newLive:   func() client.Object { return live() },
		decorate: func(owner types.UID, refs []*metav1ac.OwnerReferenceApplyConfiguration) {
			config.WithLabels(map[string]string{naming.LabelManagedBy: naming.ManagedBy})
			config.WithAnnotations(map[string]string{naming.AnnotationOwner: string(owner)})
			config.WithOwnerReferences(refs...)
		},
		note:     func(key, value string) { config.WithAnnotations(map[string]string{key: value}) },
		annotate: func(hash string) { config.WithAnnotations(map[string]string{naming.AnnotationApplied: hash}) },
		withUID:  func(uid types.UID) { config.WithUID(uid) },
		withRV:   func(rv string) { config.WithResourceVersion(rv) },
	}
}

// Annotate adds an annotation to what is stated, and to what is applied instead
// by IfExists or Fallback.
func (in Intent) Annotate(key, value string) {
	in.notes[key] = value
	in.note(key, value)
}

// instead returns an intent that takes the place of in: what was said about the
// child as a whole holds for it, too.
func (in Intent) instead(other Intent) Intent {
	for k, v := range in.notes {
		other.Annotate(k, v)
	}
	if other.Changes == nil {
		other.Changes = in.Changes
	}
	return other
}

// String names the child for errors and logs: `Service "web-service"`.
func (in Intent) String() string { return fmt.Sprintf("%s %q", in.Kind, in.Name) }

// Ref returns the reference by which other intents name the child.
func (in Intent) Ref() Ref { return Ref{in.Kind, in.Name} }

// Key is the child's name as a map key.
func (in Intent) Key() client.ObjectKey {
	return client.ObjectKey{Namespace: in.Namespace, Name: in.Name}
}

// Object returns the child as it would be sent: with owner, label and hash.
// It is what render prints.
func (in Intent) Object(owner client.Object, gvk metav1.GroupVersionKind) (json.RawMessage, error) {
	if _, err := in.complete(owner, gvk, ""); err != nil {
		return nil, err
	}
	return json.Marshal(in.config)
}

// complete adds to the configuration what every child carries, and returns
// what is stated, as decoded JSON. The hash is of everything stated. If
// namespace is not empty, it is the UID of the Namespace that owns the child as
// well.
func (in Intent) complete(owner client.Object, gvk metav1.GroupVersionKind, namespace types.UID) (stated map[string]any, err error) {
	refs := []*metav1ac.OwnerReferenceApplyConfiguration{metav1ac.OwnerReference().
		WithAPIVersion(metav1.GroupVersion{Group: gvk.Group, Version: gvk.Version}.String()).
		WithKind(gvk.Kind).WithName(owner.GetName()).WithUID(owner.GetUID()).
		WithController(true).WithBlockOwnerDeletion(true)}
	if namespace != "" {
		refs = append(refs, namespaceReference(in.Namespace, namespace))
	}
	in.decorate(owner.GetUID(), refs)
	hashed := in
	if in.HashAs != nil {
		hashed = *in.HashAs
		hashed.decorate(owner.GetUID(), refs)
	}
	hash, err := hashed.hash()
	if err != nil {
		return nil, err
	}
	in.annotate(hash)
	raw, err := json.Marshal(in.config)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", in, err)
	}
	if err := json.Unmarshal(raw, &stated); err != nil {
		return nil, fmt.Errorf("decoding %s: %w", in, err)
	}
	return stated, nil
}

func (in Intent) hash() (string, error) {
	raw, err := json.Marshal(in.config)
	if err != nil {
		return "", fmt.Errorf("encoding %s: %w", in, err)
	}
	h := fnv.New64a()
	h.Write([]byte(hashVersion)) // a hash never fails to write
	h.Write(raw)
	return hashVersion + "-" + strconv.FormatUint(h.Sum64(), 16), nil
}

// answer decodes what the server wrote back into the configuration.
func (in Intent) answer() (client.Object, error) {
	raw, err := json.Marshal(in.config)
	if err != nil {
		return nil, fmt.Errorf("encoding the server's answer for %s: %w", in, err)
	}
	live := in.newLive()
	if err := json.Unmarshal(raw, live); err != nil {
		return nil, fmt.Errorf("decoding the server's answer for %s: %w", in, err)
	}
	return live, nil
}

// metaOf returns the metadata of a generated apply configuration, nil if it has
// none.
func metaOf(config runtime.ApplyConfiguration) *metav1ac.ObjectMetaApplyConfiguration {
	f := reflect.Indirect(reflect.ValueOf(config)).FieldByName("ObjectMetaApplyConfiguration")
	if !f.IsValid() {
		return nil
	}
	m, _ := reflect.TypeAssert[*metav1ac.ObjectMetaApplyConfiguration](f)
	return m
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
