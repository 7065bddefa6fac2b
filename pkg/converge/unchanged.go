package converge

import (
	"context"
	"hash/maphash"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/configsource"
)

// A reconcile decides from what it reads, and from nothing else. After one that
// found nothing to do, the next one ends after the reads if these return the
// same versions of the same objects. This makes its cost independent of what
// the objects contain (docs/decisions/0029-unchanged-objects.md).
//
// The reads are those of Observe, so that a kind cannot forget one. Each counts
// with the identity and the version of the objects that it returned, or with the
// fact that it found none. Other inputs are covered as
// follows:
//
//   - children that were applied: all of them must have been observed in the
//     version that was compared with the intent;
//   - the clock: a decision that time alone can change requests another
//     reconcile, and none is skipped from that time on.

// fingerprint identifies everything that was read to decide about one object.
// The hash has a random seed, so that a collision cannot be constructed. 0 is
// never remembered.
type fingerprint uint64

var seed = maphash.MakeSeed()

// reads is a record of the objects that were read. The order of the reads does
// not matter, because caches list objects in random order. A nil *reads records
// nothing.
type reads struct {
	sum fingerprint
	// unidentified reports that an object without a UID or version was read, so
	// that a change of it would not be noticed.
	unidentified bool
	// versions are those of the objects that exist, if it is not nil.
	versions map[types.UID]string
	// objects are those that were read one by one, and empty ones for those that were not
	// found, if it is not nil. The cache changes during a reconcile: an observed child may
	// have been deleted or replaced before its intent is applied.
	objects map[apply.ChildKey]client.Object
}

// read is what one read contributes to a fingerprint.
type read struct {
	of      any // the type that was read
	key     client.ObjectKey
	uid     types.UID
	version string
	problem string // for example, that there is no such object
}

func (r *reads) add(e read) { r.sum += fingerprint(maphash.Comparable(seed, e)) }

func (r *reads) addObject(of reflect.Type, o client.Object) {
	e := read{of: of, key: client.ObjectKeyFromObject(o), uid: o.GetUID(), version: o.GetResourceVersion()}
	if e.uid == "" || e.version == "" {
		r.unidentified = true
	}
	if r.versions != nil {
		r.versions[e.uid] = e.version
	}
	r.add(e)
}

// addReferences records the users' ConfigMaps and Secrets. Their content is
// identified more precisely than by their versions.
func (r *reads) addReferences(sources map[string]configsource.Source, secrets map[string]configsource.SecretDigest) {
	if r == nil {
		return
	}
	for name, s := range sources {
		e := read{of: "source", key: client.ObjectKey{Name: name}, version: s.Version}
		if s.Err != nil {
			e.problem = s.Err.Error()
		}
		r.add(e)
	}
	for name, s := range secrets {
		e := read{of: "secret", key: client.ObjectKey{Name: name}, version: s.Digest}
		if s.Err != nil {
			e.problem = s.Err.Error()
		}
		r.add(e)
	}
}

// recorder is a reader that records what it returned.
type recorder struct {
	client.Client
	reads *reads
	// shared returns the objects of the cache themselves, which must not be
	// modified.
	shared bool
}

func (r recorder) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	if r.shared {
		opts = append(slices.Clip(opts), client.UnsafeDisableDeepCopy)
	}
	err := r.Client.Get(ctx, key, into, opts...)
	if r.reads.objects != nil && client.IgnoreNotFound(err) == nil {
		r.reads.objects[apply.ChildKey{Kind: kindOf(into), ObjectKey: key}] = into
	}
	if err != nil {
		r.reads.add(read{of: reflect.TypeOf(into), key: key, problem: err.Error()})
		return err
	}
	r.reads.addObject(reflect.TypeOf(into), into)
	return nil
}

func (r recorder) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	if r.shared {
		opts = append(slices.Clip(opts), client.UnsafeDisableDeepCopy)
	}
	of := reflect.TypeOf(into)
	if err := r.Client.List(ctx, into, opts...); err != nil {
		r.reads.add(read{of: of, problem: err.Error()})
		return err
	}
	return meta.EachListItem(into, func(o runtime.Object) error {
		r.reads.addObject(of, o.(client.Object))
		return nil
	})
}

// rest is the state of an object for which a reconcile found nothing to do.
type rest struct {
	reads fingerprint // 0 if there is none
	until time.Time   // when time alone may change a decision, or zero
}

// read starts a record of the reads that decide about an object.
func (r *Reconciler) read(obj Object) *reads {
	seen := &reads{}
	seen.addObject(reflect.TypeOf(obj), obj)
	return seen
}

// unchanged reports whether everything that the last reconcile of an object
// read is unchanged, and that reconcile found nothing to do. after is when time
// alone may change that, or 0.
func (r *Reconciler) unchanged(ctx context.Context, obj Object) (after time.Duration, ok bool) {
	key := client.ObjectKeyFromObject(obj)
	last := r.takeRest(key)
	if last.reads == 0 {
		return 0, false
	}
	if !last.until.IsZero() {
		if after = last.until.Sub(r.now()); after <= 0 {
			return 0, false
		}
	}
	seen := r.read(obj)
	in := Reader{Reader: recorder{r.client, seen, true}, unavailable: r.unavailable, reads: seen}
	if _, err := r.kind.observeAll(ctx, in, r.refs, obj); err != nil || seen.unidentified || seen.sum != last.reads {
		return 0, false
	}
	r.keepRest(key, last)
	return after, true
}

// confirm reports whether a plan has been found to be fulfilled by exactly the
// objects that were observed.
func (r *Reconciler) confirm(plan Plan, out Outcome, seen *reads) bool {
	if seen.unidentified || len(plan.Prune) > 0 {
		return false
	}
	for _, in := range plan.Apply {
		child, ok := out.children[in.ChildKey()]
		switch {
		case !ok && !r.unavailable.has(in.Kind):
		case !ok, seen.versions[child.Live.GetUID()] != child.Live.GetResourceVersion():
			return false // it was not applied, or written, or another one was observed
		}
	}
	return true
}

// takeRest returns what the last reconcile remembered, and forgets it: only a
// reconcile that ends at rest remembers it again.
func (r *Reconciler) takeRest(key types.NamespacedName) (last rest) {
	r.change(key, func(m *memory) {
		last, m.rest = m.rest, rest{}
	})
	return last
}

func (r *Reconciler) keepRest(key types.NamespacedName, now rest) {
	r.change(key, func(m *memory) { m.rest = now })
}
