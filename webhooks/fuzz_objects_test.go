package webhooks_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/pod-security-admission/api"
	psa "k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/platform-operator/platform-operator/apis/common"
	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	immortalv1alpha1 "github.com/platform-operator/platform-operator/apis/immortalcontainer/v1alpha1"
	"github.com/platform-operator/platform-operator/controllers"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/configsource"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/webhooks/admissiontest/corpus"
	"github.com/platform-operator/platform-operator/webhooks/admissiontest/generate"
)

// known is a kind with its CRD, which takes a second to read.
type known struct {
	corpus.Kind
	*corpus.Definition
}

var kinds = sync.OnceValues(func() ([]known, error) {
	var all []known
	for _, k := range corpus.Kinds() {
		d, err := k.Definition("")
		if err != nil {
			return nil, err
		}
		all = append(all, known{k, d})
	}
	return all, nil
})

// drawn is a randomly generated object.
type drawn struct {
	known
	obj map[string]any
	// old is the object before the update, or nil for a creation.
	old []byte
}

// drawKind and drawObject derive a kind and an object from the bytes of a fuzzer.
func drawKind(tb testing.TB, d *generate.Dice) known {
	tb.Helper()
	all, err := kinds()
	if err != nil {
		tb.Fatal(err)
	}
	return all[d.Below(len(all))]
}

func drawObject(d *generate.Dice, k known, old *drawn) *drawn {
	o := &drawn{known: k, obj: generate.Object(d, k.Schema, []int{25, 60, 5, 100}[d.Below(4)])}
	name := "web"
	if d.One(8) {
		name = []string{strings.Repeat("a", 63), strings.Repeat("a", 55), strings.Repeat("b", 51), "a.b", "1", "A", "a-", strings.Repeat("a", 253), "kubernetes"}[d.Below(9)]
	}
	if old != nil {
		o.old, name = old.json(), old.obj["metadata"].(map[string]any)["name"].(string)
	}
	o.obj["apiVersion"], o.obj["kind"] = k.APIVersion, k.Kind.Kind
	o.obj["metadata"] = map[string]any{"name": name, "namespace": "default"}
	return o
}

func (o *drawn) json() []byte {
	raw, err := json.Marshal(o.obj)
	if err != nil {
		panic(err) // it consists of JSON types
	}
	return raw
}

// judge runs all layers of admission.
func (o *drawn) judge(t *testing.T) []corpus.Failure {
	t.Helper()
	faults, err := corpus.Judge(t.Context(), o.Kind, o.Definition, corpus.Case{Name: "drawn", Platform: config.Default(), Object: o.json(), Old: o.old})
	if err != nil {
		t.Fatalf("%s: %v", o.json(), err)
	}
	return faults
}

// mend removes rejected fields until the object is accepted, and reports whether
// it succeeded. each is called with the errors of the object before each step.
func (o *drawn) mend(t *testing.T, each func([]corpus.Failure)) bool {
	t.Helper()
	for range 30 {
		faults := o.judge(t)
		if each != nil {
			each(faults)
		}
		if len(faults) == 0 {
			return true
		}
		mended := false
		for _, f := range faults {
			if f.Field == "metadata.name" && o.old == nil {
				o.obj["metadata"].(map[string]any)["name"], mended = "web", true
			}
			spec, _ := o.obj["spec"].(map[string]any)
			switch {
			case generate.Mend(o.obj, f.Field):
				mended = true
			case f.Field == "spec.image" && spec != nil:
				spec["image"], mended = "nginx:1.27", true
			case f.Field == "spec.size" && spec != nil:
				spec["size"], mended = 3, true
			}
		}
		if !mended {
			return false
		}
	}
	return false
}

// typed returns the object as the operator reads it.
func (o *drawn) typed(t *testing.T) client.Object {
	t.Helper()
	// As it is stored: without the fields that the schema prunes.
	obj, _, err := o.Decode(o.json())
	if err != nil {
		t.Fatal(err)
	}
	// A new object has no revisions that could be pinned.
	unstructured.RemoveNestedField(obj, "spec", "rollout", "pinnedRevision")
	raw, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	typed := o.New()
	if err := json.Unmarshal(raw, typed); err != nil {
		t.Fatalf("admitted, and cannot be read: %v\n%s", err, raw)
	}
	typed.SetUID("8a2ba2a4-0d38-4d3e-9d5f-3f0d8b1f4c11")
	return typed
}

// children returns the children as the operator would apply them in a cluster in
// which everything exists that the object refers to.
func children(obj client.Object) ([]json.RawMessage, error) {
	scheme := runtime.NewScheme()
	if err := controllers.AddToScheme(scheme); err != nil {
		return nil, err
	}
	gvk, err := apiutil.GVKForObject(obj, scheme)
	if err != nil {
		return nil, err
	}
	kinds := controllers.Kinds(config.Default())
	i := slices.IndexFunc(kinds, func(k converge.AnyKind) bool { return reflect.TypeOf(k.New()) == reflect.TypeOf(obj) })
	if i < 0 {
		return nil, fmt.Errorf("%T is not one of the kinds", obj)
	}
	o := obj.(converge.Object)
	model, err := kinds[i].Offline(context.Background(), o, sources(kinds[i], o))
	if err != nil {
		return nil, fmt.Errorf("observing nothing: %w", err)
	}
	plan, err := model.Plan()
	if err != nil {
		return nil, fmt.Errorf("deciding on children: %w", err)
	}
	var all []json.RawMessage
	for _, in := range plan.Apply {
		raw, err := in.Object(o, metav1.GroupVersionKind(gvk))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", in, err)
		}
		all = append(all, raw)
	}
	return all, nil
}

// sources returns ConfigMaps with all keys that an object refers to.
func sources(k converge.AnyKind, obj converge.Object) map[string]configsource.Source {
	found := map[string]configsource.Source{}
	if k.References == nil {
		return found
	}
	for _, r := range k.References(obj) {
		s, ok := found[r.Name]
		if !ok {
			s = configsource.Source{Found: true, Version: "0/1", Content: &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: r.Name, Namespace: obj.GetNamespace(), UID: types.UID("0"), ResourceVersion: "1"},
				Data:       map[string]string{"index.html": "a"},
			}}
		}
		if r.Key != "" {
			s.Content.Data[r.Key] = "a b;"
		}
		found[r.Name] = s
	}
	return found
}

// pods returns the pods and pod templates among the children.
func pods(children []json.RawMessage) (map[string]corev1.PodTemplateSpec, error) {
	found := map[string]corev1.PodTemplateSpec{}
	var errs []error
	for _, raw := range children {
		var head metav1.PartialObjectMetadata
		errs = append(errs, json.Unmarshal(raw, &head))
		switch head.Kind {
		case "Pod":
			var p corev1.Pod
			errs = append(errs, json.Unmarshal(raw, &p))
			found["Pod "+head.Name] = corev1.PodTemplateSpec{ObjectMeta: p.ObjectMeta, Spec: p.Spec}
		case "Deployment", "StatefulSet":
			var d struct {
				Spec struct{ Template corev1.PodTemplateSpec }
			}
			errs = append(errs, json.Unmarshal(raw, &d))
			found[head.Kind+" "+head.Name] = d.Spec.Template
		}
	}
	return found, errors.Join(errs...)
}

// anyImage are the kinds that run any image, and therefore promise Restricted only
// if the spec asks for it.
var anyImage = []string{demoapplicationv1.Kind, immortalv1alpha1.Kind}

// promised returns the Pod Security profile that the pods of an object must
// comply with.
func (o *drawn) promised() api.Level {
	profile, _, _ := unstructured.NestedString(o.obj, "spec", "security", "profile")
	if slices.Contains(anyImage, o.Kind.Kind) && profile != string(common.SecurityRestricted) {
		return api.LevelBaseline
	}
	return api.LevelRestricted
}

// addSeeds adds numbers to the corpus of a fuzz target, each of which generates an
// object.
func addSeeds(f *testing.F) {
	f.Helper()
	for i := range 150 {
		f.Add(binary.BigEndian.AppendUint32(nil, uint32(i)*2654435761))
	}
}

// FuzzPodsKeepTheirProfile checks that the pods of every accepted object comply
// with the Pod Security Standard of the kind.
func FuzzPodsKeepTheirProfile(f *testing.F) {
	addSeeds(f)
	evaluator, err := psa.NewEvaluator(psa.DefaultChecks(), nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		d := generate.NewDice(bytes)
		o := drawObject(d, drawKind(t, d), nil)
		if !o.mend(t, nil) {
			return
		}
		obj := o.typed(t)
		made, err := children(obj)
		if err != nil {
			t.Fatalf("%v\n%s", err, o.json())
		}
		found, err := pods(made)
		if err != nil {
			t.Fatal(err)
		}
		level := api.LevelVersion{Level: o.promised(), Version: api.LatestVersion()}
		for name, p := range found {
			if r := psa.AggregateCheckResults(evaluator.EvaluatePod(level, &p.ObjectMeta, &p.Spec)); !r.Allowed {
				t.Errorf("%s is not %s: %s\n%s", name, level.Level, r.ForbiddenDetail(), o.json())
			}
		}
	})
}

// Fuzzing finds nothing if admission rejects almost every object.
func TestDrawObject_IsMostlyAdmitted(t *testing.T) {
	const all = 600
	admitted, fields := 0, map[string]map[string]bool{}
	for i := range all {
		d := generate.NewDice([]byte{byte(i), byte(i >> 8), 99})
		o := drawObject(d, drawKind(t, d), nil)
		if !o.mend(t, nil) {
			continue
		}
		admitted++
		of := fields[o.Kind.Kind]
		if of == nil {
			of = map[string]bool{}
			fields[o.Kind.Kind] = of
		}
		for field := range o.obj["spec"].(map[string]any) {
			of[field] = true
		}
	}
	if admitted < all*6/10 {
		t.Errorf("%d of %d are admitted", admitted, all)
	}
	known, err := kinds()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range known {
		spec := k.Schema.Properties["spec"]
		for field := range spec.Properties {
			if !fields[k.Kind.Kind][field] && field != "replicas" && field != "autoscaling" { // one kind always rejects replicas; valid autoscaling is too unlikely
				t.Errorf("no %s with spec.%s is admitted", k.Kind.Kind, field)
			}
		}
	}
}
