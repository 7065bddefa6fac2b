package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/controllers"
	"github.com/platform-operator/platform-operator/pkg/cli"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/inspect"
	"github.com/platform-operator/platform-operator/pkg/testkit/golden"
	"github.com/platform-operator/platform-operator/pkg/testkit/messages"
)

// world makes a cluster with the objects of a case the one that commands
// connect to.
func world(t *testing.T, documents []string, funcs ...interceptor.Funcs) {
	t.Helper()
	s := runtime.NewScheme()
	if err := controllers.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	k, err := kinds()
	if err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(s, serializer.EnableStrict).UniversalDeserializer()
	b := fake.NewClientBuilder().WithScheme(s).WithIndex(&corev1.Event{}, inspect.EventField, func(o client.Object) []string {
		return []string{o.(*corev1.Event).InvolvedObject.Name}
	})
	for _, d := range documents {
		obj, _, err := decoder.Decode([]byte(d), nil, nil)
		if err != nil {
			t.Fatalf("%v in\n%s", err, d)
		}
		b.WithObjects(obj.(client.Object))
	}
	for _, f := range funcs {
		b.WithInterceptorFuncs(f)
	}
	built := b.Build()
	beforeConnect, beforeNow := connect, now
	t.Cleanup(func() { connect, now = beforeConnect, beforeNow })
	now = func() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }
	t.Setenv("KUBECONFIG", kubeconfig(t, "http://none.invalid"))
	connect = func(f *cli.ClusterFlags) (cluster, error) {
		_, ns, err := f.Load()
		return cluster{namespace: ns, client: built, Inspector: inspect.Inspector{Client: built, Scheme: s, Kinds: k}}, err
	}
}

// causes are what the first screen about the broken object of each case must
// name, and its remedy.
var causes = map[string][]string{
	"image-not-found":         {"registry.example/shop:2.0", "not found", "Correct the image"},
	"crash-loop":              {"panic: DATABASE_URL is not set", "kubectl -n shop logs shop-7d9-k5w2m -c web --previous"},
	"quota":                   {"exceeded quota: team", "Raise the quota"},
	"quota-of-pods":           {"exceeded quota: team, requested: pods=1"},
	"missing-configmap":       {`configmap "settings" not found`, "Create the object"},
	"missing-reference":       {`ConfigMap "shop-conf"`, "Create it"},
	"bad-pin":                 {"Revision 9", "Pin one of the revisions that are kept: 1, 2"},
	"conflict":                {`Service "shop-service" exists already`, "Delete or rename it"},
	"paused":                  {"spec.paused", "Set spec.paused to false"},
	"rolled-back":             {"nginx:1.27.44 cannot be pulled", "Revision 2 is serving instead", "Change the spec"},
	"unschedulable":           {"2 Insufficient memory", "add nodes"},
	"terminating":             {"backup.example.com/snapshot", "Check the component that set the finalizer"},
	"unprocessed":             {"has not processed the latest change", "check that the operator is running"},
	"container-keeps-exiting": {"code 137 (OOMKilled)", "spec.resources.limits.memory"},
	"probe-failed":            {"dial tcp 10.1.0.7:9999: connect: connection refused", "the ports in the spec"},
	"unbound-claim":           {`storageclass.storage.k8s.io "nosuch" not found`, "storage class of the PersistentVolumeClaim"},
	"load-balancer":           {"Ready"},
	"canary":                  {"Revision 2 is a canary"},
	"autoscaling":             {"cannot scale", "unable to get metrics for resource cpu", "Install metrics-server"},
	"ready":                   {"Ready"},
}

// reference returns the object of a case as KIND/NAME.
func reference(t *testing.T, documents []string) string {
	t.Helper()
	var o metav1.PartialObjectMetadata
	if err := yaml.Unmarshal([]byte(documents[0]), &o); err != nil {
		t.Fatal(err)
	}
	return strings.ToLower(o.Kind) + "/" + o.Name
}

func TestStatus_NamesTheCauseOnTheFirstScreen(t *testing.T) {
	cases := golden.Cases(t)
	for name := range causes {
		if cases[name] == nil {
			t.Errorf("case %q has no objects", name)
		}
	}
	for name, documents := range cases {
		t.Run(name, func(t *testing.T) {
			ref := reference(t, documents)
			world(t, documents)
			checkMessages(t, ref)
			for file, args := range map[string][]string{"status.txt": {"status", ref}, "table.txt": {"status"}} {
				got, err := execute(t, args...)
				want := 1
				if name == "ready" || name == "paused" || name == "load-balancer" {
					want = 0
				}
				if code := cli.ExitCode(err); code != want || err != nil && err.Error() != "" {
					t.Fatalf("exit code %d, want %d: %v", code, want, err)
				}
				screen := strings.Join(strings.SplitN(got, "\n", 13)[:min(12, strings.Count(got, "\n"))], "\n")
				if len(causes[name]) == 0 {
					t.Error("what should the first screen name?")
				}
				for _, want := range causes[name] {
					if !strings.Contains(screen, want) {
						t.Errorf("%v: the first screen does not contain %q:\n%s", args, want, got)
					}
				}
				if strings.Contains(got, "\033") {
					t.Errorf("%v: colours without a terminal:\n%q", args, got)
				}
				golden.File(t, filepath.Join("testdata", name, file), []byte(got))
			}
		})
	}
}

// checkMessages checks that the operator could have written the status.
func checkMessages(t *testing.T, ref string) {
	t.Helper()
	got, err := execute(t, "status", ref, "-o", "json")
	if cli.ExitCode(err) > 1 {
		t.Fatal(err)
	}
	var o inspect.Object
	if err := json.Unmarshal([]byte(got), &o); err != nil {
		t.Fatal(err)
	}
	known := controllers.Kinds(config.Default())
	kind := known[slices.Index(controllers.Names(known), o.Kind)]
	if err := messages.CheckStatus(kind.MessageKinds(), o.Conditions, o.LastActions); err != nil {
		t.Error(err)
	}
}

// all returns the objects of all cases, in one namespace for each case.
func all(t *testing.T) []string {
	t.Helper()
	var documents []string
	for name, docs := range golden.Cases(t) {
		for _, d := range docs {
			documents = append(documents, strings.ReplaceAll(d, "namespace: shop", "namespace: "+name))
		}
	}
	return documents
}

func TestStatus_ListsAttentionFirst(t *testing.T) {
	world(t, all(t))
	got, err := execute(t, "status", "-A")
	if cli.ExitCode(err) > 1 {
		t.Fatal(err)
	}
	golden.File(t, filepath.Join("testdata", "all.txt"), []byte(got))
	got, err = execute(t, "status", "-A", "-o", "json")
	if cli.ExitCode(err) > 1 {
		t.Fatal(err)
	}
	var r inspect.Report
	if err := json.Unmarshal([]byte(got), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Objects) != len(causes) || r.Objects[0].State != inspect.StateStalled || r.Objects[len(causes)-1].State != inspect.StateReady {
		t.Errorf("got\n%s", got)
	}
}

func TestStatus_ErrorsContainTheRemedy(t *testing.T) {
	world(t, golden.Cases(t)["ready"])
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"unknown kind":   {[]string{"status", "webserber/shop"}, `"webserber" is not a kind of this operator: use demoapplication, immortalcontainer, memcached, webserver`},
		"no name":        {[]string{"status", "ws"}, `"ws" names no object: use KIND/NAME, such as webserver/shop`},
		"unknown object": {[]string{"status", "ws/shpo"}, `webserver/shpo does not exist in namespace "shop": check the name, or select a namespace with -n`},
		"output":         {[]string{"status", "-o", "yaml"}, `-o "yaml" must be json, or be omitted`},
		"one of all":     {[]string{"status", "ws/shop", "-A"}, "-A shows all objects"},
		"two names":      {[]string{"status", "ws/a", "b"}, "name one object"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := execute(t, tc.args...)
			if cli.ExitCode(err) != 2 || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") || out != "" {
				t.Errorf("got %v, want %q\n%s", err, tc.want, out)
			}
		})
	}
	for _, args := range [][]string{{"status", "ws/shop"}, {"status", "WebServer/shop"}, {"status", "webservers.my.domain/shop"}, {"status", "webserver", "shop"}} {
		if _, err := execute(t, args...); err != nil {
			t.Errorf("%v: %v", args, err)
		}
	}
	got, err := execute(t, "status", "-n", "elsewhere")
	if err != nil || got != "No objects in namespace elsewhere. -n selects another namespace, -A all of them.\n" {
		t.Errorf("got %v\n%s", err, got)
	}
}

// A user may lack permission for some types. Everything else is shown.
func TestStatus_ShowsWhatMayBeRead(t *testing.T) {
	for name, documents := range map[string][]string{"one": golden.Cases(t)["rolled-back"], "list": golden.Cases(t)["unschedulable"]} {
		t.Run(name, func(t *testing.T) {
			ref := reference(t, documents)
			world(t, documents, interceptor.Funcs{List: refuse(&corev1.PodList{})})
			args := []string{"status"}
			if name == "one" {
				args = append(args, ref)
			}
			got, err := execute(t, args...)
			if cli.ExitCode(err) > 1 || !strings.Contains(got, "Note: Pod: not shown, because you do not have permission to list them.") {
				t.Errorf("got %v\n%s", err, got)
			}
		})
	}
	t.Run("no answer", func(t *testing.T) {
		asked := 0
		world(t, nil, interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			asked++
			return &url.Error{Op: "Get", URL: "https://api.example", Err: errors.New("net/http: TLS handshake timeout")}
		}})
		if _, err := execute(t, "status"); cli.ExitCode(err) != 2 || asked != 1 {
			t.Errorf("got %v after %d requests, each of which may take ten seconds", err, asked)
		}
	})
	t.Run("no answer, after a missing CRD", func(t *testing.T) {
		missing := false
		world(t, nil, interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			if !missing {
				missing = true
				return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "WebServer"}}
			}
			return &url.Error{Op: "Get", URL: "https://api.example", Err: errors.New("net/http: TLS handshake timeout")}
		}})
		if _, err := execute(t, "status"); err == nil || !strings.Contains(err.Error(), "TLS handshake timeout") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("nothing", func(t *testing.T) {
		world(t, nil, interceptor.Funcs{List: refuse(nil)})
		if _, err := execute(t, "status"); cli.ExitCode(err) != 2 || !strings.Contains(err.Error(), "listing") || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v", err)
		}
	})
}

// If a kind is disabled, its CRD may not exist.
func TestStatus_OmitsKindsThatAreNotServed(t *testing.T) {
	world(t, golden.Cases(t)["rolled-back"], interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
		if strings.HasSuffix(fmt.Sprintf("%T", l), ".MemcachedList") {
			return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "cache.example.com", Kind: "Memcached"}}
		}
		return c.List(ctx, l, opts...)
	}})
	if got, err := execute(t, "status", "-A"); cli.ExitCode(err) > 1 || strings.Contains(got, "memcached") || !strings.Contains(got, "webserver/shop") {
		t.Errorf("got %v\n%s", err, got)
	}
}

// refuse refuses to list a type, or all types if it is nil.
func refuse(of client.ObjectList) func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
	return func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
		if of == nil || reflect.TypeOf(l) == reflect.TypeOf(of) {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("RBAC"))
		}
		return c.List(ctx, l, opts...)
	}
}
