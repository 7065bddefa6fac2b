package caches

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"

	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/apply/compare"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/podstate"
)

// liveObjects returns the objects in testdata/live, by file: a WebServer, its
// children and one of its pods, and the pod of an ImmortalContainer, as they were
// in a cluster. Each call of a function decodes its object as the client does, after
// changes of the encoded form.
func liveObjects(t testing.TB) map[string]func(changes ...func([]byte) []byte) apiruntime.Object {
	t.Helper()
	scheme := apiruntime.NewScheme()
	for _, add := range []func(*apiruntime.Scheme) error{clientgoscheme.AddToScheme, webserverv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	codecs := serializer.NewCodecFactory(scheme)
	pb := protobuf.NewSerializer(scheme, scheme)
	files, err := filepath.Glob("testdata/live/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]func(...func([]byte) []byte) apiruntime.Object{}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		o, gvk, err := codecs.UniversalDeserializer().Decode(raw, nil, nil)
		if err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		var wire []byte
		var codec apiruntime.Serializer = pb
		if _, ok := o.(*webserverv1.WebServer); ok { // custom resources are transferred as JSON
			codec = codecs.SupportedMediaTypes()[0].Serializer
			wire, err = yaml.YAMLToJSON(raw)
		} else {
			wire, err = apiruntime.Encode(pb, o)
		}
		if err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		all[strings.TrimSuffix(filepath.Base(f), ".yaml")] = func(changes ...func([]byte) []byte) apiruntime.Object {
			wire := slices.Clone(wire)
			for _, change := range changes {
				wire = change(wire)
			}
			into := reflect.New(reflect.TypeOf(o).Elem()).Interface().(apiruntime.Object)
			if _, _, err := codec.Decode(wire, gvk, into); err != nil {
				t.Fatalf("%s: %v", f, err)
			}
			return into
		}
	}
	if len(all) != 8 {
		t.Fatalf("%d objects, want 8", len(all))
	}
	return all
}

// identity is what differs between two objects that are otherwise the same: the name of
// our object, UIDs, and most digits of hashes, which the tag of a field may follow. What
// replaces one has the same length, so that it can be done in the encoded form.
var identity = regexp.MustCompile(`webserver-sample|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{12}|[0-9a-f]{10}`)

// another gives an encoded object another identity.
func another(wire []byte) []byte {
	const digits = "0123456789abcdef"
	replaced := map[string][]byte{}
	return identity.ReplaceAllFunc(wire, func(old []byte) []byte {
		if !bytes.ContainsAny(old, "abcdef") {
			return old // a quantity
		}
		if replaced[string(old)] == nil {
			now := bytes.Clone(old)
			for i := range now {
				if now[i] != '-' {
					now[i] = digits[rand.IntN(len(digits))] //nolint:gosec // not a secret
				}
			}
			replaced[string(old)] = now
		}
		return replaced[string(old)]
	})
}

// heapPerObject returns the bytes of heap that an object has after a transform.
func heapPerObject(decode func(...func([]byte) []byte) apiruntime.Object, transform cache.TransformFunc) int {
	const n = 500
	kept := make([]any, n)
	heap := func() uint64 {
		var m runtime.MemStats
		for range 2 { // the second collection frees what the first one finalized
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for i := range kept {
		kept[i], _ = transform(decode(another))
	}
	after := heap()
	runtime.KeepAlive(kept)
	return int(after-before) / n //nolint:gosec // a difference of sizes
}

func TestTrim_BytesPerObject(t *testing.T) {
	whole := func(in any) (any, error) { return in, nil }
	// Bytes depend on the size classes of Go's allocator, but not on the machine.
	limits := map[string]int{
		"configmap": 400, "controllerrevision": 500, "deployment": 450, "immortal-pod": 530,
		"pod": 480, "poddisruptionbudget": 350, "service": 360, "webserver": 1900,
	}
	objects := liveObjects(t)
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		cached := new(trimmer).trim
		if p := packerOf(t, objects[name]()); p != nil {
			cached = func(in any) (any, error) {
				in, err := new(trimmer).trim(in)
				if err != nil {
					return nil, err
				}
				return p.pack(in)
			}
		}
		was, reduced, is := heapPerObject(objects[name], whole), heapPerObject(objects[name], new(trimmer).trim), heapPerObject(objects[name], cached)
		t.Logf("%-20s %6d bytes, reduced to %6d, held with %6d", name, was, reduced, is)
		if is > limits[name] {
			t.Errorf("%s has %d bytes, want at most %d", name, is, limits[name])
		}
	}
}

func TestTrim_KeepsWhatIsComparedOrReported(t *testing.T) {
	objects := liveObjects(t)
	trimmed := func(name string) apiruntime.Object {
		t.Helper()
		got, err := new(trimmer).trim(objects[name]())
		if err != nil {
			t.Fatal(err)
		}
		again, err := new(trimmer).trim(got.(apiruntime.Object).DeepCopyObject())
		if diff := cmp.Diff(got, again); err != nil || diff != "" {
			t.Errorf("a transform may run twice over the same object: %v\n%s", err, diff)
		}
		return got.(apiruntime.Object)
	}

	pod, whole := trimmed("pod").(*corev1.Pod), objects["pod"]().(*corev1.Pod)
	if want := (map[string]string{naming.AnnotationTemplate: whole.Annotations[naming.AnnotationTemplate]}); !maps.Equal(pod.Annotations, want) {
		t.Errorf("annotations of the pod: %v, want %v", pod.Annotations, want)
	}
	if diff := cmp.Diff([]any{whole.Labels, whole.OwnerReferences, whole.CreationTimestamp, whole.UID, whole.ResourceVersion},
		[]any{pod.Labels, pod.OwnerReferences, pod.CreationTimestamp, pod.UID, pod.ResourceVersion}); diff != "" {
		t.Errorf("identity of the pod (-whole +trimmed):\n%s", diff)
	}
	if was, is := whole.Status.ContainerStatuses[0], pod.Status.ContainerStatuses[0]; is.ImageID != was.ImageID || !is.Ready || is.State.Running == nil {
		t.Errorf("state of the container: %+v", is)
	}
	if pod.Spec.NodeName == "" || pod.Spec.NodeName != whole.Spec.NodeName {
		t.Errorf("node of the pod: %q, want %q", pod.Spec.NodeName, whole.Spec.NodeName)
	}
	if !podstate.Ready(pod) {
		t.Errorf("the pod is not ready: %+v", pod.Status.Conditions)
	}

	// An ImmortalContainer compares the pod that it created.
	immortal, want := trimmed("immortal-pod").(*corev1.Pod), objects["immortal-pod"]().(*corev1.Pod)
	if diff := cmp.Diff(want.Spec, immortal.Spec); diff != "" {
		t.Errorf("pod of an ImmortalContainer (-whole +trimmed):\n%s", diff)
	}

	if d := trimmed("deployment").(*appsv1.Deployment); !compare.HasAppliedReplicas(d) {
		t.Errorf("managed fields of the Deployment: %v", d.ManagedFields)
	}

	w, wholeW := trimmed("webserver").(*webserverv1.WebServer), objects["webserver"]().(*webserverv1.WebServer)
	if diff := cmp.Diff([]any{wholeW.Spec, wholeW.Status}, []any{w.Spec, w.Status}); diff != "" {
		t.Errorf("WebServer (-whole +trimmed):\n%s", diff)
	}
	if len(wholeW.Annotations) != 1 || len(w.Annotations) != 0 {
		t.Errorf("annotations of a WebServer that was created with kubectl apply: %v, trimmed to %v", wholeW.Annotations, w.Annotations)
	}
}

func TestInterner_SharesUntilItIsFull(t *testing.T) {
	var i interner
	for n := range 2 * mostNames {
		i.of(strconv.Itoa(n))
	}
	if len(i.shared) != mostNames {
		t.Errorf("%d strings are kept, want %d", len(i.shared), mostNames)
	}
	a, b := i.of(strings.Clone("7")), i.of(strings.Clone("7"))
	if unsafe.StringData(a) != unsafe.StringData(b) { //nolint:gosec // compares addresses
		t.Error("equal strings are not shared")
	}
}
