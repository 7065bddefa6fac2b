//go:build linux

package webhooks_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"
	"sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/controllers"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/webhooks"
	"github.com/platform-operator/platform-operator/webhooks/admissiontest/corpus"
)

const mebibyte = 1 << 20

// costly limits the processor time of a response, as a multiple of the time to
// decode 1 MiB of JSON, because absolute times depend on the machine and its
// load. Measured: at most 2.3. An algorithm that is quadratic in its input takes
// thousands. For validation the limit applies to objects that the schema accepts,
// because the API server sends no others.
const costly = 10

// server serves the webhooks as the operator does, without a cluster.
type server struct {
	manager.Manager // its other methods are not called
	scheme          *k8sruntime.Scheme
	hooks           webhook.Server
}

func (s server) GetScheme() *k8sruntime.Scheme             { return s.scheme }
func (s server) GetWebhookServer() webhook.Server          { return s.hooks }
func (s server) GetConfig() *rest.Config                   { return &rest.Config{} }
func (s server) GetLogger() logr.Logger                    { return logr.Discard() }
func (s server) GetConverterRegistry() conversion.Registry { return conversion.NewRegistry() }

// door is the server, which is set up once per process.
var door = sync.OnceValues(func() (http.Handler, error) {
	ctrllog.SetLogger(logr.Discard())
	s := server{scheme: k8sruntime.NewScheme(), hooks: webhook.NewServer(webhook.Options{})}
	if err := controllers.AddToScheme(s.scheme); err != nil {
		return nil, err
	}
	if err := webhooks.Setup(s, config.Default(), nil); err != nil {
		return nil, err
	}
	return s.hooks.WebhookMux(), nil
})

// path returns the path of a webhook; verb is mutate or validate.
func path(verb string, k corpus.Kind) string {
	group, version, _ := strings.Cut(k.APIVersion, "/")
	return "/" + verb + "-" + strings.ReplaceAll(group, ".", "-") + "-" + version + "-" + strings.ToLower(k.Kind)
}

// ask sends the creation of an object to a webhook, and returns the processor
// time of the response. Wall-clock time would include other processes.
func ask(t *testing.T, verb string, k corpus.Kind, object []byte) (*admissionv1.AdmissionResponse, time.Duration) {
	t.Helper()
	mux, err := door()
	if err != nil {
		t.Fatal(err)
	}
	// The request is not encoded as a whole, because the object may be invalid JSON.
	body := fmt.Appendf(nil, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","operation":"CREATE","object":%s}}`, object)
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path(verb, k), bytes.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	rec := httptest.NewRecorder()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := processorTime(t)
	mux.ServeHTTP(rec, req)
	took := processorTime(t) - before
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(rec.Body.Bytes(), &review); err != nil || review.Response == nil {
		t.Fatalf("%s answers %d %q: %v", req.URL.Path, rec.Code, rec.Body.String(), err)
	}
	if s := review.Response.Result; s != nil && strings.Contains(s.Message, "panic") {
		t.Errorf("%s panics: %s", req.URL.Path, s.Message)
	}
	return review.Response, took
}

// processorTime returns the processor time of this thread.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_THREAD, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// decoding returns the processor time to decode 1 MiB of JSON.
func decoding(t *testing.T) time.Duration {
	t.Helper()
	raw := []byte("[" + strings.Repeat(`{"name":"a","value":1},`, mebibyte/23-1) + "{}]")
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := processorTime(t)
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return processorTime(t) - before
}

// checkCost compares the cost of a response with that of decoding. The cheapest
// of several responses counts, because garbage collection may run during the
// others. Validation is checked only for objects that the schema accepts.
func checkCost(t *testing.T, verb string, k corpus.Kind, object []byte, took time.Duration) {
	t.Helper()
	if took < 20*time.Millisecond { // not worth a comparison
		return
	}
	baseline := decoding(t)
	if took <= costly*baseline || verb == "validate" && !admits(t, k, object) {
		return
	}
	for range 4 {
		_, again := ask(t, verb, k, object)
		if took = min(took, again); took <= costly*baseline {
			return
		}
	}
	t.Errorf("%s of %s with %d bytes takes %.0f times as long as decoding a mebibyte, want at most %d", verb, k.Kind, len(object), float64(took)/float64(baseline), costly)
}

// admits reports whether the schema accepts an object. Only then does the API
// server call the validating webhook.
func admits(t *testing.T, k corpus.Kind, object []byte) bool {
	t.Helper()
	all, err := kinds()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		if o.Kind.Kind == k.Kind {
			obj, _, err := o.Decode(object)
			faults, _ := o.Validate(t.Context(), obj, nil)
			return err == nil && len(faults) == 0
		}
	}
	return false
}

// samples are the objects of config/samples by the index of their kind.
func samples(tb testing.TB) map[uint8][][]byte {
	tb.Helper()
	files, err := filepath.Glob("../config/samples/*.yaml")
	if err != nil {
		tb.Fatal(err)
	}
	all := map[uint8][][]byte{}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			tb.Fatal(err)
		}
		for doc := range strings.SplitSeq(string(raw), "\n---\n") {
			object, err := yaml.YAMLToJSON([]byte(doc))
			if err != nil {
				tb.Fatal(err)
			}
			var head metav1.TypeMeta
			if err := json.Unmarshal(object, &head); err != nil {
				continue // a list of files, not an object
			}
			for i, k := range corpus.Kinds() {
				if head.Kind == k.Kind {
					all[uint8(i)] = append(all[uint8(i)], object)
				}
			}
		}
	}
	if len(all) != len(corpus.Kinds()) {
		tb.Fatalf("there are samples of %d kinds, want %d", len(all), len(corpus.Kinds()))
	}
	return all
}

// sent returns an object as the API server sends it: serialized by itself, so without
// duplicate names, and with metadata. It reports whether the API server would send it.
func sent(raw []byte) (object []byte, ok bool) {
	var fields map[string]any
	if json.Unmarshal(raw, &fields) != nil {
		return nil, false
	}
	if _, ok := fields["metadata"].(map[string]any); !ok {
		return nil, false
	}
	object, err := json.Marshal(fields)
	return object, err == nil
}

// FuzzAdmission sends arbitrary bytes. Decoding, mutation and validation must not
// panic, must be cheap and deterministic. For an object that the API server sends, mutation must be
// idempotent.
func FuzzAdmission(f *testing.F) {
	for i, k := range corpus.Kinds() {
		n := uint8(i)
		for _, object := range samples(f)[n] {
			f.Add(n, object)
		}
		for _, spec := range []string{
			`{}`, `null`, `[]`, `""`, `0`, `{"image":null}`, `{"image":1}`, `{"deletionPolicy":"Orphan"}`, `{"deletionPolicy":"Orphan","image":"a"}`,
			`{"size":2147483648}`, `{"replicas":1e100}`, `{"memory":{"size":"1e100"}}`, `{"memory":{"size":1e-100}}`,
			`{"resources":{"limits":{"cpu":"1e100","memory":"-1"},"requests":{"cpu":"1e-100"}}}`,
			`{"image":"a","ports":[{"port":1,"targetPort":"a"},{"port":99999,"targetPort":1.5}]}`,
			`{"image":"nginx","config":{"inline":"location / { return 200 \"a\n"}}`, `{"image":"nginx","config":{"inline":"\\"}}`,
			`{"image":"a","pod":{"volumes":[{"name":"a"},{"name":"a"}],"volumeMounts":[{"name":"b","mountPath":""}]}}`,
			`{"image":"a","expose":{"hosts":[""],"gateway":{"parentRef":{"name":"","namespace":"b"}}}}`,
			`{"image":"a","probes":{"readiness":{"httpGet":{"port":"http"}},"startup":{},"liveness":null}}`,
		} {
			f.Add(n, fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"name":"a","namespace":"b"},"spec":%s}`, k.APIVersion, k.Kind, spec))
		}
		for _, object := range []string{``, `{`, `null`, `[]`, `"a"`, `{"a":{"a":`, "\xff\xfe", `{"kind":"Pod","apiVersion":"v1"}`, `{"metadata":{"finalizers":["a",null,1]}}`} {
			f.Add(n, []byte(object))
		}
	}
	f.Fuzz(func(t *testing.T, n uint8, object []byte) {
		if len(object) > mebibyte {
			t.Skip("the API server takes no more")
		}
		kinds := corpus.Kinds()
		k := kinds[int(n)%len(kinds)]
		verdict, took := ask(t, "validate", k, object)
		checkCost(t, "validate", k, object, took)
		if again, _ := ask(t, "validate", k, object); cmp.Diff(verdict, again) != "" {
			t.Errorf("validate is not deterministic: %s", cmp.Diff(verdict, again))
		}
		_, took = ask(t, "mutate", k, object)
		checkCost(t, "mutate", k, object, took)
		object, ok := sent(object)
		if !ok {
			return
		}
		first, _ := ask(t, "mutate", k, object)
		if len(first.Patch) == 0 {
			return
		}
		patch, err := jsonpatch.DecodePatch(first.Patch)
		if err != nil {
			t.Fatalf("the patch %s: %v", first.Patch, err)
		}
		made, err := patch.Apply(object)
		if err != nil {
			t.Fatalf("the patch %s does not fit %s: %v", first.Patch, object, err)
		}
		if second, _ := ask(t, "mutate", k, made); len(second.Patch) > 0 {
			t.Errorf("defaulting is not idempotent: first %s, then %s", first.Patch, second.Patch)
		}
	})
}

// Inputs that are the most expensive to parse, 256 KiB each. A quadratic algorithm, which takes
// a sixteenth of its time for 1 MiB, is still far over the limit.
func TestAdmission_CostsLittleForLargeObjects(t *testing.T) {
	const size = mebibyte / 4
	fill := func(before, one, after string) string {
		n := (size - 512) / len(one)
		var b strings.Builder
		b.WriteString(before)
		for i := range n {
			if i > 0 && strings.HasPrefix(one, "{") {
				b.WriteByte(',')
			}
			b.WriteString(one)
		}
		return b.String()[:min(b.Len(), size-256)] + after
	}
	list := func(field, one string) string {
		n := (size - 512) / (len(one) + 1)
		return `"` + field + `":[` + strings.TrimSuffix(strings.Repeat(one+",", n), ",") + `]`
	}
	numbered := func(field, before, after string) string {
		var all []string
		for n := 0; n < size-512; {
			one := fmt.Sprintf("%s%d%s", before, len(all), after)
			all, n = append(all, one), n+len(one)+1
		}
		return `"` + field + `":[` + strings.Join(all, ",") + `]`
	}
	const image = `"image":"nginx",`
	for name, spec := range map[string]string{
		"deep objects":        strings.Repeat(`{"a":`, size/12) + "1" + strings.Repeat(`}`, size/12),
		"deep lists":          `{"ports":` + strings.Repeat(`[`, size/4) + strings.Repeat(`]`, size/4) + `}`,
		"many ports":          `{` + image + numbered("ports", `{"name":"p`, `","port":80,"targetPort":"a","nodePort":30000}`) + `}`,
		"the same port":       `{` + image + list("ports", `{"port":1}`) + `}`,
		"many variables":      `{` + image + numbered("env", `{"name":"A`, `","value":"$(B)"}`) + `}`,
		"many mounts":         `{` + image + `"pod":{"volumes":[],` + numbered("volumeMounts", `{"name":"v","mountPath":"/a`, `"}`) + `}}`,
		"many volumes":        `{` + image + `"pod":{` + numbered("volumes", `{"name":"v`, `","emptyDir":{}}`) + `}}`,
		"a long image":        `{"image":"` + fill("", "a/", "") + `"}`,
		"an image of dots":    `{"image":"` + fill("", "a.b-c_d.", "") + `:1"}`,
		"many directives":     `{` + image + `"config":{"inline":"` + fill("", "a;", "") + `"}}`,
		"many blocks":         `{` + image + `"config":{"inline":"` + fill("", "a{", "") + `"}}`,
		"many quotes":         `{` + image + `"config":{"inline":"` + fill("", `\"`, "") + `"}}`,
		"many comments":       `{` + image + `"config":{"inline":"` + fill("", `#\n`, "") + `"}}`,
		"many backslashes":    `{` + image + `"config":{"inline":"` + fill("", `\\`, "") + `"}}`,
		"one long argument":   `{` + image + `"config":{"inline":"` + fill("", "$a", "") + `;"}}`,
		"many hosts":          `{` + image + `"expose":{` + numbered("hosts", `"h`, `.example.com"`) + `}}`,
		"many annotations":    `{` + image + `"pod":{"annotations":{` + strings.TrimPrefix(strings.TrimSuffix(numbered("x", `"a.example/k`, `":"v"`), "]"), `"x":[`) + `}}}`,
		"a long quantity":     `{` + image + `"resources":{"limits":{"cpu":"` + fill("", "9", "") + `"}}}`,
		"a large exponent":    `{` + image + `"memory":{"size":"1e1000000000"},"resources":{"limits":{"cpu":"1e1000000000"}}}`,
		"a quantity in a key": `{` + image + `"memory":{"size":"0.` + fill("", "0", "1") + `"}}`,
		"many quantities":     `{` + image + `"resources":{"limits":{` + strings.TrimPrefix(strings.TrimSuffix(numbered("x", `"example.com/a`, `":"1e100"`), "]"), `"x":[`) + `}}}`,
		"a large number":      `{` + image + `"replicas":` + fill("", "9", "") + `}`,
	} {
		t.Run(name, func(t *testing.T) {
			for _, k := range corpus.Kinds() {
				object := fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"name":"a","namespace":"b"},"spec":%s}`, k.APIVersion, k.Kind, spec)
				if len(object) > size {
					t.Fatalf("the object has %d bytes", len(object))
				}
				_, took := ask(t, "mutate", k, object)
				checkCost(t, "mutate", k, object, took)
				_, took = ask(t, "validate", k, object)
				checkCost(t, "validate", k, object, took)
			}
		})
	}
}
