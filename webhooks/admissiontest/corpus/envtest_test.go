//go:build envtest

package corpus

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/controllers"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/render"
	"github.com/platform-operator/platform-operator/pkg/testkit/apiserver"
	"github.com/platform-operator/platform-operator/webhooks"
)

// TestAPIServer sends every case to a real API server with the CRDs and the
// webhooks. It must reject all invalid objects, and accept all valid ones and their
// children.
func TestAPIServer(t *testing.T) {
	s := start(t)
	objects := map[string][]byte{} // of the cases that are updates, as stored
	for _, k := range Kinds() {
		for i, c := range read(t, k) {
			if c.Old == nil || !s.applies(t, k, c) {
				continue
			}
			name := fmt.Sprintf("%s-%d", k.Folder, i)
			stored := s.mustStore(t, k, named(t, c.Old, name))
			objects[c.String()] = named(t, c.Object, name, stored)
		}
	}
	s.beStrict(t)
	for _, k := range Kinds() {
		t.Run(k.Folder, func(t *testing.T) {
			t.Parallel()
			var refused, admitted, children, unknown, elsewhere int
			for _, c := range read(t, k) {
				if !s.applies(t, k, c) {
					elsewhere++
					continue
				}
				d := definition(t, k, c.Version(k))
				method, path, body := http.MethodPost, s.path(d, ""), c.Object
				if c.Old != nil {
					body = objects[c.String()]
					method, path = http.MethodPut, s.path(d, nameOf(t, body))
				}
				code, answer := s.send(t, method, path+"?dryRun=All&fieldValidation=Strict", body)
				switch {
				case code >= 500 || code == http.StatusNotFound || code == http.StatusConflict:
					t.Errorf("%s: %d %s", c, code, answer)
				case c.Refused != nil && code < 300:
					t.Errorf("%s: admitted", c)
				case c.Refused == nil && code >= 300:
					t.Errorf("%s: refused: %s", c, answer)
				case c.Refused != nil:
					refused++
				default:
					admitted++
					n, left := s.tryChildren(t, k, c)
					children, unknown = children+n, unknown+left
				}
			}
			t.Logf("%d refused, %d admitted, with %d children, and %d more of types that this server does not know; %d cases are about another platform", refused, admitted, children, unknown, elsewhere)
		})
	}
}

// applies reports whether the server, which has one platform configuration, is
// expected to decide a case in the same way as with the configuration of the case.
func (s *server) applies(t *testing.T, k Kind, c Case) bool {
	t.Helper()
	here := c
	here.Platform = s.platform
	faults, err := Judge(t.Context(), k, definition(t, k, c.Version(k)), here)
	if err != nil {
		t.Fatal(err)
	}
	return (len(faults) > 0) == (c.Refused != nil)
}

// open is a platform configuration that does not restrict annotations and priority
// classes, so that more cases apply.
func open() config.Platform {
	p := config.Default()
	p.Annotations, p.PriorityClasses = []string{"*"}, []string{"*"}
	return p
}

type server struct {
	cfg      *rest.Config
	http     *http.Client
	client   client.Client
	scheme   *runtime.Scheme
	hooks    *envtest.WebhookInstallOptions
	strict   []*apiextensionsv1.CustomResourceDefinition
	platform config.Platform
}

// start starts an API server that serves the kinds and does not reject any object
// of them yet, so that objects of older versions can be stored.
func start(t *testing.T) *server {
	t.Helper()
	env := &envtest.Environment{}
	env.ControlPlane.GetAPIServer().Configure().Set("service-cluster-ip-range", "10.0.0.0/16").
		// Whether a class in the spec exists is not what is tested.
		Append("disable-admission-plugins", "Priority", "RuntimeClass")
	cfg, err := apiserver.Start(env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	cfg.QPS = -1
	s := &server{
		cfg: cfg, scheme: runtime.NewScheme(), platform: open(),
		hooks: &envtest.WebhookInstallOptions{Paths: []string{filepath.Join(root, "config", "webhook", "manifests.yaml")}},
	}
	if err := controllers.AddToScheme(s.scheme); err != nil {
		t.Fatal(err)
	}
	if s.http, err = rest.HTTPClientFor(cfg); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, "config", "crd", "bases", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		strict := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(raw, strict); err != nil {
			t.Fatal(err)
		}
		s.strict = append(s.strict, strict)
	}
	var loose []*apiextensionsv1.CustomResourceDefinition
	for _, strict := range s.strict {
		open := strict.DeepCopy()
		for i := range open.Spec.Versions {
			open.Spec.Versions[i].Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
		}
		loose = append(loose, open)
	}
	if err := apiserver.InstallCRDs(cfg, loose); err != nil {
		t.Fatal(err)
	}
	if s.client, err = client.New(cfg, client.Options{Scheme: s.scheme}); err != nil {
		t.Fatal(err)
	}
	return s
}

// beStrict installs the original CRDs and the webhooks.
func (s *server) beStrict(t *testing.T) {
	t.Helper()
	if err := apiserver.InstallCRDs(s.cfg, s.strict); err != nil {
		t.Fatal(err)
	}
	if err := s.hooks.Install(s.cfg); err != nil {
		t.Fatal(err)
	}
	mgr, err := manager.New(s.cfg, manager.Options{
		Scheme: s.scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{Host: s.hooks.LocalServingHost, Port: s.hooks.LocalServingPort, CertDir: s.hooks.LocalServingCertDir}),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := webhooks.Setup(mgr, s.platform, nil); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() {
		if err := mgr.Start(ctx); err != nil {
			t.Errorf("the manager: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		ended.Wait()
		if err := s.hooks.Cleanup(); err != nil {
			t.Error(err)
		}
	})
	// Both take effect a short time after they are written.
	for _, k := range Kinds() {
		d := definition(t, k, k.Versions[0])
		for _, layer := range []Layer{Schema, Go} {
			cases := read(t, k)
			at := slices.IndexFunc(cases, func(c Case) bool {
				return c.Old == nil && s.applies(t, k, c) && c.Refused != nil && len(c.Refused.By) == 1 && c.Refused.By[0] == layer
			})
			if at < 0 {
				t.Fatalf("%s has no case that %s alone refuses", k.Folder, layer)
			}
			good := slices.IndexFunc(cases, func(c Case) bool { return c.Old == nil && s.applies(t, k, c) && c.Refused == nil })
			for until := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
				bad, _ := s.send(t, http.MethodPost, s.path(d, "")+"?dryRun=All", cases[at].Object)
				code, answer := s.send(t, http.MethodPost, s.path(d, "")+"?dryRun=All", cases[good].Object)
				if bad == http.StatusUnprocessableEntity && code < 300 {
					break
				}
				if time.Now().After(until) {
					t.Fatalf("%s is answered with %d, and %s with %d: %s", cases[at], bad, cases[good], code, answer)
				}
			}
		}
	}
}

func (s *server) path(d *Definition, name string) string {
	p := fmt.Sprintf("/apis/%s/%s/namespaces/%s/%s", d.Resource.Group, d.Resource.Version, Namespace, d.Resource.Resource)
	if name != "" {
		p += "/" + name
	}
	return p
}

func (s *server) send(t *testing.T, method, path string, body []byte) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, strings.TrimSuffix(s.cfg.Host, "/")+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(answer)
}

// mustStore stores an object and returns its resource version.
func (s *server) mustStore(t *testing.T, k Kind, object []byte) string {
	t.Helper()
	code, answer := http.StatusNotFound, ""
	// A CRD is served a short time after it is established.
	for until := time.Now().Add(time.Minute); code == http.StatusNotFound && time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		code, answer = s.send(t, http.MethodPost, s.path(definition(t, k, k.Versions[0]), ""), object)
	}
	if code >= 300 {
		t.Fatalf("storing %s: %s", object, answer)
	}
	var u unstructured.Unstructured
	if err := u.UnmarshalJSON([]byte(answer)); err != nil {
		t.Fatal(err)
	}
	return u.GetResourceVersion()
}

func named(t *testing.T, object []byte, name string, version ...string) []byte {
	t.Helper()
	var u unstructured.Unstructured
	if err := u.UnmarshalJSON(object); err != nil {
		t.Fatal(err)
	}
	u.SetName(name)
	u.SetResourceVersion(strings.Join(version, ""))
	raw, err := u.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func nameOf(t *testing.T, object []byte) string {
	t.Helper()
	var u unstructured.Unstructured
	if err := u.UnmarshalJSON(object); err != nil {
		t.Fatal(err)
	}
	return u.GetName()
}

// tryChildren applies the children of an object with dry-run, as the operator would
// send them.
func (s *server) tryChildren(t *testing.T, k Kind, c Case) (applied, unknown int) {
	t.Helper()
	obj := k.New()
	decoded, _, err := definition(t, k, c.Version(k)).Decode(c.Object)
	if err != nil {
		t.Fatal(err)
	}
	if err := typed(decoded, obj); err != nil {
		t.Fatal(err)
	}
	if obj.GetName() == "" {
		obj.SetName(obj.GetGenerateName() + "x7k2p")
	}
	obj.SetUID("6f0c4f6e-0000-4000-8000-000000000000")
	obj.GetObjectKind().SetGroupVersionKind(definition(t, k, c.Version(k)).GVK)
	raw, err := json.Marshal(obj) // YAML cannot contain all characters
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := render.Objects(bytes.NewReader(raw), c.String(), &out, s.scheme, controllers.Kinds(c.Platform), nil); err != nil {
		// A missing reference, and an object without children.
		for _, waits := range []string{"ConfigMap", "(spec.rollout.pinnedRevision) does not exist", "holds no object to render"} {
			if strings.Contains(err.Error(), waits) {
				return 0, 0
			}
		}
		t.Errorf("%s: %v", c, err)
		return 0, 0
	}
	for doc := range strings.SplitSeq(out.String(), "\n---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), &u.Object); err != nil {
			t.Fatal(err)
		}
		if len(u.Object) == 0 {
			continue
		}
		u.SetNamespace(Namespace)
		u.SetResourceVersion("")
		// As it was rendered: the JSON of u may contain what the API server, which reads an
		// apply as YAML, refuses.
		err := s.client.Patch(t.Context(), u, client.RawPatch(types.ApplyPatchType, []byte(doc)), client.DryRunAll, client.ForceOwnership, client.FieldOwner("corpus"))
		switch {
		case meta.IsNoMatchError(err):
			unknown++
		case err != nil:
			t.Errorf("%s: its %s is refused: %v", c, u.GetKind(), err)
		default:
			applied++
		}
	}
	return applied, unknown
}
