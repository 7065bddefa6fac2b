package apply

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/pkg/hash"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// hashVersion is the version of the hash of an intent. Changing it costs one
// request per child after the next upgrade, so it is changed only if the hash
// of the same intent would change anyway.
const hashVersion = "1"

// Configuration is a typed apply configuration of a namespaced object with metadata, such
// as *DeploymentApplyConfiguration.
type Configuration interface {
	runtime.ApplyConfiguration
	GetName() *string
	GetNamespace() *string
	GetKind() *string
	GetAPIVersion() *string
}

// Intent is the desired state of one child. It is used once: applying it adds
// metadata to the configuration, so each kind builds new intents in every
// reconcile.
type Intent struct {
	// Kind, Namespace and Name identify the child.
	Kind, Namespace, Name string
	// Exclusive lists the paths that may hold only what is stated and the API
	// server's defaults, such as "spec.ports", "spec.template.spec.hostPID" or
	// "spec.template.spec.containers[webserver].env". A list may not have unstated
	// elements, but unstated fields of the stated elements are kept. In all other paths,
	// additions by other managers are kept.
	Exclusive []string
	// Fallback returns an intent to apply instead if the API server refuses this
	// one. It is used once. If it is nil or returns false, the refusal is
	// returned as it is.
	Fallback func(refused error) (Intent, bool)
	// FallbackAfter is how long a refused intent is retried before its fallback is
	// applied: an object that was just deleted may occupy a resource, such as a
	// node port, for a moment longer.
	FallbackAfter time.Duration
	// Replace reports whether a refusal means that the live object cannot be
	// changed into the stated one, so that it has to be deleted and created
	// again. If nil, the child is never replaced.
	Replace func(refused error) bool
	// HashIntent, if set, is hashed instead of this intent. It omits fields that are
	// stated only to keep their value, such as a node port that Kubernetes
	// allocated, so that learning the value causes no write.
	HashIntent *Intent
	// ReleaseFields returns the fields of a live child that are about to be removed
	// from the intent and have to keep their value, or nil if there are none.
	// They are applied first, by a separate field manager.
	ReleaseFields func(live client.Object) runtime.ApplyConfiguration
	// KeepsPods reports whether a write changed nothing that the child's controller acts
	// on, so that what the controller reported before is still true. If nil, none is.
	KeepsPods func(before, after client.Object) bool
	// Optional reports that the child is omitted without an error if its API is
	// not served by the cluster.
	Optional bool
	// NeverCreated reports that the child has never been created. If it does not exist,
	// it was not deleted, so there is no need to check that the owner still
	// exists.
	NeverCreated bool
	// DeleteOnOrphan reports that the child is useless without its owner. It is deleted
	// with the owner even if the deletion policy is Orphan.
	DeleteOnOrphan bool
	// OnRelease, if set, changes a child that is released so that it works
	// without the operator. The change is part of the releasing request.
	OnRelease func(live client.Object)
	// ObservedUID, if set, is the UID of the object that was observed when the intent
	// was built, or "" if there was none. If the live object differs, nothing is
	// written: an intent for a running pod may be wrong for a pod that has to be
	// created.
	ObservedUID *types.UID
	// Requires lists children that must have been applied without an error in the
	// same reconcile before this one is written. They precede it in the plan. A
	// child that is not in the plan is not required.
	Requires []Ref
	// StartAfter is like Requires, but applies only if the write may start the first
	// pod: if the child does not exist yet, or Starts is true. Any other child that
	// exists is written.
	StartAfter []Ref
	// Starts reports that the child exists, runs nothing, and starts pods when it is
	// written.
	Starts bool
	// Otherwise returns the intent to apply if a child in Requires was not
	// applied, or false for none. The alternative requires nothing.
	Otherwise func() (Intent, bool)
	// IfExists returns the intent to apply instead if the child turns out to
	// exist although it was not observed as a child of the owner: values that are
	// right for a new child may be wrong for one that serves requests. If nil,
	// the intent does not change.
	IfExists func(live client.Object) Intent
	// Changes are log messages about the changes of this intent. They are written
	// only if the intent is sent.
	Changes []Change

	config  Configuration
	meta    *metav1ac.ObjectMetaApplyConfiguration // of config
	newLive func() client.Object
	request func() request
	notes   map[string]string // added by Annotate
	records map[string]string
}

// Ref identifies a child in the namespace of its owner.
type Ref struct{ Kind, Name string }

// ChildKey identifies a child.
type ChildKey struct {
	Kind string
	client.ObjectKey
}

// Change is a log message with its keys and values.
type Change struct {
	Message       string
	KeysAndValues []any
}

// Named returns an intent that only names a live object. It can be released, but not
// applied.
func Named(kind string, live client.Object) Intent {
	return Intent{
		Kind: kind, Namespace: live.GetNamespace(), Name: live.GetName(),
		newLive: func() client.Object { return reflect.New(reflect.TypeOf(live).Elem()).Interface().(client.Object) },
	}
}

// New returns an intent for a typed apply configuration. live returns an empty
// object of the same type, into which the child is read.
func New[L client.Object](config Configuration, live func() L) Intent {
	return Intent{
		Kind:      ptr.Deref(config.GetKind(), ""),
		Namespace: ptr.Deref(config.GetNamespace(), ""),
		Name:      ptr.Deref(config.GetName(), ""),
		config:    config,
		meta:      metaOf(config),
		notes:     map[string]string{},
		records:   map[string]string{},
		newLive:   func() client.Object { return live() },
		request:   func() request { return &exchange[L]{Configuration: config} },
	}
}

// Annotate adds an annotation to the stated fields, and to those of an intent
// that replaces this one through IfExists or Fallback.
func (in Intent) Annotate(key, value string) { in.notes[key] = value }

// Record adds an annotation that is only written together with other changes: a
// child is not written because its records differ. Like Annotate, it also applies
// to an intent that replaces this one.
func (in Intent) Record(key, value string) { in.records[key] = value }

// instead returns other as a replacement of in, with what in states about the
// child as a whole: annotations, log messages, and what was observed.
func (in Intent) instead(other Intent) Intent {
	maps.Copy(other.notes, in.notes)
	maps.Copy(other.records, in.records)
	if other.Changes == nil {
		other.Changes = in.Changes
	}
	if other.ObservedUID == nil {
		other.ObservedUID = in.ObservedUID
	}
	other.NeverCreated = other.NeverCreated || in.NeverCreated
	return other
}

// String names the child for errors and logs: `Service "web-service"`.
func (in Intent) String() string { return fmt.Sprintf("%s %q", in.Kind, in.Name) }

// Ref returns the reference by which other intents name the child.
func (in Intent) Ref() Ref { return Ref{in.Kind, in.Name} }

// ChildKey returns what identifies the child.
func (in Intent) ChildKey() ChildKey { return ChildKey{in.Kind, in.Key()} }

// Key returns the namespace and the name of the child.
func (in Intent) Key() client.ObjectKey {
	return client.ObjectKey{Namespace: in.Namespace, Name: in.Name}
}

// Object returns the child as it would be sent, with owner, label and hash. It
// is the output of the render command.
func (in Intent) Object(owner client.Object, gvk metav1.GroupVersionKind) (json.RawMessage, error) {
	if _, err := in.complete(Owner{Object: owner, GVK: gvk}); err != nil {
		return nil, err
	}
	return encode(in.config)
}

// completed is a completed configuration.
type completed struct {
	raw  []byte // without the hash and the records
	hash string
}

// stated returns all stated fields as decoded JSON.
func (c completed) stated() (map[string]any, error) {
	var fields map[string]any
	if err := json.Unmarshal(c.raw, &fields); err != nil {
		return nil, fmt.Errorf("decoding an intent: %w", err)
	}
	if err := unstructured.SetNestedField(fields, c.hash, "metadata", "annotations", naming.AnnotationApplied); err != nil {
		return nil, fmt.Errorf("annotating an intent: %w", err)
	}
	return fields, nil
}

// complete adds the metadata that every child has to the configuration. The hash
// covers all stated fields, but no records.
func (in Intent) complete(owner Owner) (completed, error) {
	bound := in.isBound(owner.Object)
	raw, err := in.decorated(owner, bound)
	hashed := raw
	if err == nil && in.HashIntent != nil {
		hashed, err = in.HashIntent.decorated(owner, bound)
	}
	if err != nil {
		return completed{}, fmt.Errorf("encoding %s: %w", in, err)
	}
	c := completed{raw: raw, hash: hashVersion + "-" + hash.Bytes(hashVersion, hashed)}
	in.meta.WithAnnotations(in.records).WithAnnotations(map[string]string{naming.AnnotationApplied: c.hash})
	return c, nil
}

// decorated adds the label, the annotations and the reference of an owner, and returns the
// resulting JSON.
func (in Intent) decorated(owner Owner, bound bool) ([]byte, error) {
	in.meta.WithLabels(map[string]string{naming.LabelManagedBy: naming.ManagedBy})
	in.meta.WithAnnotations(in.notes).WithAnnotations(map[string]string{naming.AnnotationOwner: string(owner.Object.GetUID())})
	if gvk := schema.GroupVersionKind(owner.GVK); bound {
		in.meta.WithOwnerReferences(metav1ac.OwnerReference().
			WithAPIVersion(gvk.GroupVersion().String()).
			WithKind(gvk.Kind).WithName(owner.Object.GetName()).WithUID(owner.Object.GetUID()).
			WithController(true).WithBlockOwnerDeletion(true))
	} else {
		in.meta.WithAnnotations(map[string]string{naming.AnnotationOrphanOf: OrphanOf(owner)})
	}
	return json.Marshal(in.config)
}

// releases returns the fields that are to be handed over, or nil.
func (in Intent) releases(live client.Object) runtime.ApplyConfiguration {
	if in.ReleaseFields == nil {
		return nil
	}
	return in.ReleaseFields(live)
}

// request is a configuration that can be sent, and that receives the answer.
type request interface {
	runtime.ApplyConfiguration
	answer() client.Object
}

// exchange is the request for a configuration of objects of type L. A client
// decodes the API server's answer into what it sent. An exchange decodes it into
// the type of the object: to decode it into the configuration, and to convert
// that, takes three times as long.
type exchange[L client.Object] struct {
	Configuration
	// ResourceVersion is that of the answer. The client reads it by reflection.
	ResourceVersion *string
	live            L
}

// MarshalJSON returns what is sent.
func (e *exchange[L]) MarshalJSON() ([]byte, error) { return encode(e.Configuration) }

// encode returns the JSON of a configuration. The API server and people's tools read it as
// YAML, which cannot contain some characters that JSON can.
func encode(c Configuration) ([]byte, error) {
	raw, err := json.Marshal(c)
	if err != nil || !bytes.ContainsFunc(raw, notInYAML) {
		return raw, err
	}
	var escaped []byte
	for _, r := range string(raw) {
		if notInYAML(r) {
			escaped = fmt.Appendf(escaped, `\u%04x`, r)
		} else {
			escaped = utf8.AppendRune(escaped, r)
		}
	}
	return escaped, nil
}

// notInYAML reports whether a character that encoding/json does not escape is refused by
// YAML or, like U+0085, is a line break in it.
func notInYAML(r rune) bool { return r >= 0x7f && r < 0xa0 || r == 0xfffe || r == 0xffff }

// UnmarshalJSON decodes the answer.
func (e *exchange[L]) UnmarshalJSON(raw []byte) error {
	e.live = reflect.New(reflect.TypeFor[L]().Elem()).Interface().(L)
	if err := json.Unmarshal(raw, e.live); err != nil {
		return err
	}
	e.ResourceVersion = new(e.live.GetResourceVersion())
	return nil
}

func (e *exchange[L]) answer() client.Object { return e.live }

// metaOf returns the metadata of a generated apply configuration, or nil if it
// has none.
func metaOf(config runtime.ApplyConfiguration) *metav1ac.ObjectMetaApplyConfiguration {
	f := reflect.Indirect(reflect.ValueOf(config)).FieldByName("ObjectMetaApplyConfiguration")
	if !f.IsValid() {
		return nil
	}
	m, _ := reflect.TypeAssert[*metav1ac.ObjectMetaApplyConfiguration](f)
	return m
}
