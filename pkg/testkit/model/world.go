package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/testkit"
	"github.com/platform-operator/platform-operator/pkg/testkit/wire"
)

const (
	// calm is how long an operator must neither send nor receive anything to be
	// considered idle.
	calm = 100 * time.Millisecond
	// patience is how long a violation may take to heal: counts in the status may
	// lag by five seconds, a busy machine delays events, and reconciles that take long
	// on it use up the share of the object, which waits up to five seconds then.
	patience = 12 * time.Second
	// lag is how long an event may take to reach the operator.
	lag = 5 * time.Second
	// settleLimit is how long a chain may take to settle after an operation.
	settleLimit = 40 * time.Second
	// annotationPoke is changed to trigger a reconcile of the object, as the
	// operator's own timers would within a minute.
	annotationPoke = "model.example.com/poke"
)

// World is the namespace of one chain: an operator, a simulated cluster, one
// object, and what the model records about it.
type World struct {
	env     *testkit.Env
	kind    *Kind
	ns      string
	cluster *Cluster
	wire    *wire.Wire        // of the operator that runs
	op      *testkit.Operator // that operator
	history *history
	skew    atomic.Int64 // of the operator's clock, in nanoseconds

	spec    map[string]any // of the object, before it is created
	exists  bool
	counter int
	memory  memory

	log      []string
	writes   int // accepted from operators that have ended
	checks   int
	found    []Violation
	afterOps []func(context.Context) error // end the effects of injected faults when the next step settles
}

// Violation is a promise that was not kept.
type Violation struct {
	Oracle string
	Detail string
}

func (v Violation) String() string { return v.Oracle + ": " + v.Detail }

var errSkip = errors.New("this operation does not apply now")

func newWorld(ctx context.Context, env *testkit.Env, k *Kind) (*World, error) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "model-"}}
	if err := env.Admin.Create(ctx, ns); err != nil {
		return nil, fmt.Errorf("creating a namespace: %w", err)
	}
	w := &World{env: env, kind: k, ns: ns.Name, spec: decode(k.Base), cluster: newCluster(env.Admin, ns.Name)}
	var err error
	if w.history, err = watchHistory(ctx, env.Admin, w.ns); err != nil {
		return nil, err
	}
	return w, w.start(ctx)
}

// now returns the time of the operator's clock.
func (w *World) now() time.Time { return time.Now().Add(time.Duration(w.skew.Load())) }

// start starts an operator.
func (w *World) start(ctx context.Context) error {
	w.wire = wire.New()
	var err error
	if w.op, err = w.env.Run(ctx, w.kind.subject(w.now), w.wire.Wrap, w.ns); err != nil {
		return fmt.Errorf("starting the operator: %w", err)
	}
	return nil
}

// kill ends the operator without letting it finish anything.
func (w *World) kill() {
	w.wire.Kill()
	if w.op != nil {
		w.op.Cancel()
	}
	w.writes += w.wire.Changes()
}

func (w *World) close(ctx context.Context) {
	w.kill()
	w.history.stop()
	_ = w.env.Admin.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.ns}}) // a namespace that remains only uses resources of the machine
}

func (w *World) logf(format string, args ...any) {
	w.log = append(w.log, time.Now().Format("05.000 ")+fmt.Sprintf(format, args...))
}

func (w *World) violate(oracle, format string, args ...any) {
	v := Violation{oracle, fmt.Sprintf(format, args...)}
	w.found = append(w.found, v)
	if len(w.found) == 1 {
		w.logf("the last writes of the operator:\n%s", w.lastWrites(12))
	}
	w.logf("VIOLATION %s", v)
}

// object returns the object, or nil if it does not exist.
func (w *World) object(ctx context.Context) (*unstructured.Unstructured, error) {
	u := w.kind.empty()
	err := w.env.Admin.Get(ctx, client.ObjectKey{Namespace: w.ns, Name: objectName}, u)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the object: %w", err)
	}
	return u, nil
}

// statusOf returns the part of an object's status that all kinds share.
func statusOf(u *unstructured.Unstructured) common.Status {
	var st common.Status
	if raw, err := json.Marshal(u.Object["status"]); err == nil {
		_ = json.Unmarshal(raw, &st) // missing fields stay empty
	}
	return st
}

func specOf(u *unstructured.Unstructured) map[string]any {
	s, _, _ := unstructured.NestedMap(u.Object, "spec")
	return s
}

// edit merges a patch into the spec: like kubectl patch if the object exists, and
// otherwise into the spec that it will be created with. Changes that admission
// would reject are skipped.
func (w *World) edit(ctx context.Context, patch string) error {
	change := decode(patch)
	if !w.exists {
		next := merge(w.spec, change)
		if err := w.admit(w.kind.manifest(w.ns, next)); err != nil {
			return err
		}
		w.spec = next
		return nil
	}
	u, err := w.object(ctx)
	if err != nil {
		return err
	}
	next := u.DeepCopy()
	next.Object["spec"] = merge(specOf(u), change)
	if err := w.admit(next.Object); err != nil {
		return err
	}
	if !has(next.Object, "spec", "autoscaling") {
		w.memory.floor = 0
	}
	full, err := json.Marshal(map[string]any{"spec": change})
	if err != nil {
		return fmt.Errorf("encoding the patch: %w", err)
	}
	err = w.env.Admin.Patch(ctx, u, client.RawPatch(types.MergePatchType, full), client.FieldOwner("kubectl-patch"))
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		return errSkip
	}
	if err != nil {
		return fmt.Errorf("editing the object: %w", err)
	}
	in, err := w.cluster.inputs(ctx)
	if err != nil {
		return err
	}
	spec := specOf(u)
	works, _ := works(spec, in)
	w.memory.edited(!works || has(spec, "rollout", "pinnedRevision") || spec["paused"] == true)
	return nil
}

func (w *World) admit(o map[string]any) error {
	errs, err := w.kind.validate(o)
	if err != nil || len(errs) > 0 {
		return errSkip
	}
	return nil
}

// create creates the object.
func (w *World) create(ctx context.Context) error {
	if w.exists {
		return errSkip
	}
	u := &unstructured.Unstructured{Object: w.kind.manifest(w.ns, runtime.DeepCopyJSON(w.spec))}
	if err := w.env.Admin.Create(ctx, u); err != nil {
		if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsAlreadyExists(err) {
			return errSkip
		}
		return fmt.Errorf("creating the object: %w", err)
	}
	w.exists = true
	_, versions := w.history.since(0)
	w.memory = memory{uid: u.GetUID(), versions: versions}
	return nil
}

// remove deletes the object. all reports whether it waits for the deletion of the children.
func (w *World) remove(ctx context.Context, all bool) error {
	u, err := w.object(ctx)
	if err != nil || u == nil {
		return orSkip(err)
	}
	w.spec = specOf(u)
	deleted := []unstructured.Unstructured{*u}
	if children, err := w.children(ctx); err != nil {
		return err
	} else if all {
		deleted = append(deleted, slices.DeleteFunc(children, func(c unstructured.Unstructured) bool { return !metav1.IsControlledBy(&c, u) })...)
	}
	if err := client.IgnoreNotFound(w.env.Admin.Delete(ctx, u, client.PropagationPolicy(metav1.DeletePropagationBackground))); err != nil {
		return fmt.Errorf("deleting the object: %w", err)
	}
	w.exists = false
	for i := range deleted {
		if err := w.gone(ctx, &deleted[i]); err != nil {
			return err
		}
	}
	return nil
}

// gone waits until an object is deleted.
func (w *World) gone(ctx context.Context, u *unstructured.Unstructured) error {
	const long = 20 * time.Second
	for began := time.Now(); time.Since(began) < long; time.Sleep(50 * time.Millisecond) {
		live := u.DeepCopy()
		err := w.env.Admin.Get(ctx, client.ObjectKeyFromObject(u), live)
		if apierrors.IsNotFound(err) || err == nil && live.GetUID() != u.GetUID() {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading what is deleted: %w", err)
		}
		if _, err := w.cluster.Step(ctx); err != nil {
			return err
		}
	}
	w.violate("deletion", "%s %s still exists %s after its deletion", u.GetKind(), u.GetName(), long)
	return nil
}

// poke triggers a reconcile of the object, a simulated minute later.
func (w *World) poke(ctx context.Context) error {
	if !w.exists {
		return nil
	}
	w.counter++
	w.skew.Add(int64(time.Minute))
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"%d"}}}`, annotationPoke, w.counter)
	u := w.kind.empty()
	u.SetNamespace(w.ns)
	u.SetName(objectName)
	err := w.env.Admin.Patch(ctx, u, client.RawPatch(types.MergePatchType, []byte(patch)))
	return client.IgnoreNotFound(err)
}

// idle waits until the operator does nothing.
func (w *World) idle(ctx context.Context) error {
	began := time.Now()
	received := time.Time{} // since when nothing is on its way to the operator
	for {
		if w.quiet() {
			ok, err := w.received(ctx)
			switch {
			case err != nil:
				return err
			case !ok && time.Since(began) < lag:
				received = time.Time{}
			case received.IsZero():
				received = time.Now()
			case time.Since(received) >= calm && w.quiet():
				return nil
			}
		}
		if time.Since(began) > settleLimit {
			w.violate("quiescence", "the operator is not idle after %s:\n%s", settleLimit, w.lastWrites(20))
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(calm / 4):
		}
	}
}

func (w *World) quiet() bool {
	return w.wire.IsDead() || w.wire.Quiet(calm)
}

// received reports whether the operator has received the latest events of the object
// and its workload, unless they are delayed on purpose.
func (w *World) received(ctx context.Context) (bool, error) {
	if w.op == nil || !w.wire.Delivers() {
		return true, nil
	}
	for _, o := range []struct {
		gvk  schema.GroupVersionKind
		name string
	}{{w.kind.GVK, objectName}, {gvkOf(w.kind.Workload.Kind), w.kind.Workload.Name}} {
		live := &metav1.PartialObjectMetadata{}
		live.SetGroupVersionKind(o.gvk)
		key := client.ObjectKey{Namespace: w.ns, Name: o.name}
		if err := w.env.Admin.Get(ctx, key, live); client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("reading the metadata of %s: %w", o.name, err)
		}
		live.SetNamespace(w.ns) // if it does not exist
		live.SetName(o.name)
		if ok, err := w.op.Received(ctx, o.gvk, live); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

// written returns how often the operators have changed something. A write that is refused,
// as that of a child that is unowned in every reconcile, changes nothing.
func (w *World) written() int {
	return w.writes + w.wire.Changes()
}

// settle lets the cluster and the operator continue until neither has anything left
// to do, and checks each instant in between.
func (w *World) settle(ctx context.Context) error {
	if err := w.endFaults(ctx); err != nil {
		return err
	}
	began := time.Now()
	for time.Since(began) < settleLimit {
		if err := ctx.Err(); err != nil {
			return err
		}
		if w.wire.IsDead() {
			w.logf("the operator was killed; another starts")
			w.kill()
			if err := w.start(ctx); err != nil {
				return err
			}
		}
		moved, err := w.turn(ctx)
		if err != nil {
			return err
		}
		if !moved {
			return nil
		}
	}
	w.violate("quiescence", "the operator still writes after %s:\n%s", settleLimit, w.lastWrites(20))
	return nil
}

// turn is one iteration of settle; it reports whether anything moved.
func (w *World) turn(ctx context.Context) (bool, error) {
	if err := w.idle(ctx); err != nil {
		return false, err
	}
	all, err := w.cluster.snapshot(ctx)
	if err != nil {
		return false, err
	}
	if err := w.checkInstant(ctx, all); err != nil {
		return false, err
	}
	if moved, err := w.cluster.move(ctx, all); moved || err != nil {
		return moved, err
	}
	before := w.written()
	if err := w.poke(ctx); err != nil {
		return false, err
	}
	if err := w.idle(ctx); err != nil {
		return false, err
	}
	if w.written() != before || w.wire.IsDead() {
		return true, nil
	}
	return w.cluster.PassDeadlines(ctx)
}

// endFaults ends the effects of the injected faults of earlier steps.
func (w *World) endFaults(ctx context.Context) error {
	for _, f := range w.afterOps {
		if err := f(ctx); err != nil {
			return err
		}
	}
	w.afterOps = nil
	return nil
}

func (w *World) lastWrites(n int) string {
	var all []string
	for _, d := range w.wire.Done() {
		all = append(all, d.At.Format("05.000 ")+d.String())
	}
	return strings.Join(all[max(0, len(all)-n):], "\n")
}

// merge applies a JSON merge patch.
func merge(into, change map[string]any) map[string]any {
	out := runtime.DeepCopyJSON(into)
	for k, v := range change {
		switch v := v.(type) {
		case nil:
			delete(out, k)
		case map[string]any:
			was, ok := out[k].(map[string]any)
			if !ok {
				was = map[string]any{}
			}
			out[k] = merge(was, v)
		default:
			out[k] = v
		}
	}
	return out
}

// decode decodes JSON that is a part of the catalogue, with integers as required by Kubernetes.
func decode(text string) map[string]any {
	var m map[string]any
	if err := utiljson.Unmarshal([]byte(text), &m); err != nil {
		panic(fmt.Sprintf("%s: %v", text, err))
	}
	return m
}

// text returns a string in decoded JSON, "" if there is none.
func text(o map[string]any, path ...string) string {
	s, _, _ := unstructured.NestedString(o, path...)
	return s
}

// number returns a number in decoded JSON.
func number(o map[string]any, path ...string) (int64, bool) {
	n, ok, err := unstructured.NestedInt64(o, path...)
	return n, ok && err == nil
}

// has reports whether decoded JSON contains a field.
func has(o map[string]any, path ...string) bool {
	v, ok, _ := unstructured.NestedFieldNoCopy(o, path...)
	return ok && v != nil
}
