package render

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	demoapplicationv1beta1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1beta1"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/converge"
)

// planFunc is a model without a status.
type planFunc func() (converge.Plan, error)

func (f planFunc) Plan() (converge.Plan, error) { return f() }

func (planFunc) UpdateStatus(converge.Outcome) {}

// kinds returns one kind, whose only child is a ConfigMap. The image "bad"
// cannot be rendered.
func kinds() []converge.AnyKind {
	return []converge.AnyKind{converge.Erase(converge.Kind[*webserverv1.WebServer, int]{
		New:     func() *webserverv1.WebServer { return &webserverv1.WebServer{} },
		Observe: func(context.Context, converge.Reader, *webserverv1.WebServer) (int, error) { return 0, nil },
		Model: func(w *webserverv1.WebServer, _ int) converge.Model {
			return planFunc(func() (converge.Plan, error) {
				if w.Spec.Image == "bad" {
					return converge.Plan{}, errors.New("no children of it")
				}
				return converge.Plan{Apply: []apply.Intent{
					apply.New(corev1ac.ConfigMap(w.Name, w.Namespace).WithData(map[string]string{"image": w.Spec.Image}),
						func() *corev1.ConfigMap { return &corev1.ConfigMap{} }),
				}}, nil
			})
		},
	})}
}

func rendered(t *testing.T, in string) (string, error) {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(s), webserverv1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err := Objects(strings.NewReader(in), "web.yaml", &out, s, kinds(), nil)
	return out.String(), err
}

const web = `apiVersion: my.domain/v1
kind: WebServer
metadata: {name: web}
spec: {image: "nginx:1"}
`

func TestRender_PrintsAppliedChildren(t *testing.T) {
	got, err := rendered(t, web)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(got, "\n")
	for i, l := range lines {
		if strings.Contains(l, "platform-operator.io/applied") {
			lines[i] = "    platform-operator.io/applied: HASH"
		}
	}
	want := `apiVersion: v1
data:
  image: nginx:1
kind: ConfigMap
metadata:
  annotations:
    platform-operator.io/applied: HASH
    platform-operator.io/owner-uid: ""
  labels:
    app.kubernetes.io/managed-by: platform-operator
  name: web
  namespace: default
  ownerReferences:
  - apiVersion: my.domain/v1
    blockOwnerDeletion: true
    controller: true
    kind: WebServer
    name: web
    uid: ""
`
	if diff := cmp.Diff(want, strings.Join(lines, "\n")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRender_ReadsSeveralDocuments(t *testing.T) {
	second := strings.Replace(web, "{name: web}", "{name: shop, namespace: prod}", 1)
	for name, in := range map[string]string{
		"two":                          web + "---\n" + second,
		"with empty ones between them": "---\n" + web + "---\n\n---\n" + second + "---\n",
	} {
		t.Run(name, func(t *testing.T) {
			got, err := rendered(t, in)
			if err != nil {
				t.Fatal(err)
			}
			docs := strings.Split(got, "---\n")
			if len(docs) != 2 || !strings.Contains(docs[0], "name: web\n  namespace: default\n") || !strings.Contains(docs[1], "name: shop\n  namespace: prod\n") {
				t.Errorf("got\n%s", got)
			}
		})
	}
}

func TestRender_ReadsJSON(t *testing.T) {
	got, err := rendered(t, `{"apiVersion":"my.domain/v1","kind":"WebServer","metadata":{"name":"web"},"spec":{"image":"nginx:1"}}`)
	if err != nil || !strings.Contains(got, "image: nginx:1") {
		t.Errorf("got %v\n%s", err, got)
	}
}

func TestRender_RejectsInvalidInput(t *testing.T) {
	for name, tc := range map[string]struct {
		in   string
		want []string
	}{
		"an unknown field":               {strings.Replace(web, "image:", "imago:", 1), []string{"document 1", "spec.imago"}},
		"a field in the second document": {web + "---\n" + strings.Replace(web, "image:", "imago:", 1), []string{"document 2", "spec.imago"}},
		"a field twice":                  {web + "kind: WebServer\n", []string{"document 1", "kind"}},
		"a wrong type":                   {strings.Replace(web, `"nginx:1"`, "[1]", 1), []string{"document 1", "image"}},
		"an unknown kind":                {strings.Replace(web, "WebServer", "WebSaver", 1), []string{"document 1", "WebSaver"}},
		"an unknown version":             {strings.Replace(web, "my.domain/v1", "my.domain/v2", 1), []string{"document 1", "my.domain/v2"}},
		"a kind of another operator":     {"apiVersion: v1\nkind: ConfigMap\n", []string{"contains no object of a kind that this operator manages"}},
		"no name":                        {strings.Replace(web, "name: web", "generateName: web-", 1), []string{"document 1", "no metadata.name"}},
		"no kind at all":                 {"spec: {}\n", []string{"document 1", "Kind"}},
		"an object without children":     {strings.Replace(web, "nginx:1", "bad", 1), []string{"document 1", "no children of it"}},
		"nothing":                        {"\n\n", []string{"contains no object"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := rendered(t, tc.in)
			if err == nil {
				t.Fatal("it was accepted")
			}
			for _, w := range append(tc.want, "web.yaml") {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error %q does not name %q", err, w)
				}
			}
		})
	}
}

func TestRender_ReportsReadAndWriteErrors(t *testing.T) {
	s := runtime.NewScheme()
	if err := webserverv1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken pipe")
	if err := Objects(iotest.ErrReader(broken), "standard input", &bytes.Buffer{}, s, kinds(), nil); !errors.Is(err, broken) || !strings.Contains(err.Error(), "standard input") {
		t.Errorf("source: got %v", err)
	}
	if err := Objects(strings.NewReader(web), "standard input", closed{broken}, s, kinds(), nil); !errors.Is(err, broken) {
		t.Errorf("sink: got %v", err)
	}
}

type closed struct{ err error }

func (c closed) Write([]byte) (int, error) { return 0, c.err }

func TestRender_SkipsWhatHasNoChildren(t *testing.T) {
	for name, in := range map[string]string{
		"comment before the first": "# a licence\n---\n" + web,
		"separator alone":          "---\n---\n" + web,
		"comment at the end":       web + "---\n# the end\n",
		"other kinds":              "apiVersion: v1\nkind: ConfigMap\n---\n" + web + "--- # and\napiVersion: example.com/v1\nkind: Other\n",
		"list":                     "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Secret}\n- {apiVersion: my.domain/v1, kind: WebServer, metadata: {name: web}, spec: {image: 'nginx:1'}}\n",
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := rendered(t, in); err != nil || !strings.Contains(got, "image: nginx:1") {
				t.Errorf("got %v\n%s", err, got)
			}
		})
	}
}

// Both versions of a kind yield the same children, owned by the stored version.
func TestRender_ConvertsToTheStoredVersion(t *testing.T) {
	s := runtime.NewScheme()
	if err := errors.Join(demoapplicationv1.AddToScheme(s), demoapplicationv1beta1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	kind := converge.Erase(converge.Kind[*demoapplicationv1.DemoApplication, struct{}]{
		New: func() *demoapplicationv1.DemoApplication { return &demoapplicationv1.DemoApplication{} },
		Observe: func(context.Context, converge.Reader, *demoapplicationv1.DemoApplication) (_ struct{}, _ error) {
			return
		},
		Model: func(a *demoapplicationv1.DemoApplication, _ struct{}) converge.Model {
			return planFunc(func() (converge.Plan, error) {
				in := apply.New(corev1ac.ConfigMap(a.Name, a.Namespace).WithData(map[string]string{"image": a.Spec.Image}),
					func() *corev1.ConfigMap { return &corev1.ConfigMap{} })
				return converge.Plan{Apply: []apply.Intent{in}}, nil
			})
		},
	})
	rendered := map[string]string{}
	for _, version := range []string{"v1", "v1beta1"} {
		doc := "apiVersion: paas.cmft.com/" + version + "\nkind: DemoApplication\nmetadata: {name: a}\nspec: {image: nginx}\n"
		var out bytes.Buffer
		if err := Objects(strings.NewReader(doc), "test", &out, s, []converge.AnyKind{kind}, nil); err != nil {
			t.Fatal(err)
		}
		rendered[version] = out.String()
	}
	if rendered["v1"] != rendered["v1beta1"] || !strings.Contains(rendered["v1"], "image: nginx") {
		t.Errorf("v1:\n%s\nv1beta1:\n%s", rendered["v1"], rendered["v1beta1"])
	}
}
