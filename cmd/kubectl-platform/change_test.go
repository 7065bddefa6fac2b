package main

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/platform-operator/platform-operator/pkg/cli"
	"github.com/platform-operator/platform-operator/pkg/testkit/golden"
)

// with returns the objects of a case with another text in the first one.
func with(t *testing.T, name, old, text string) []string {
	t.Helper()
	documents := append([]string(nil), golden.Cases(t)[name]...)
	if !strings.Contains(documents[0], old) {
		t.Fatalf("%q is not in\n%s", old, documents[0])
	}
	documents[0] = strings.Replace(documents[0], old, text, 1)
	return documents
}

func TestChanges(t *testing.T) {
	rolledBack := golden.Cases(t)["rolled-back"]
	healthy := with(t, "rolled-back", ", failed: 3, failedName: shop-3c3c", "")
	pinned := with(t, "rolled-back", "replicas: 2}", "replicas: 2, rollout: {pinnedRevision: 1}}")
	immortal := golden.Cases(t)["container-keeps-exiting"]
	for name, tc := range map[string]struct {
		of        []string
		args      []string
		want      string // the output
		err       string
		image     string // afterwards
		pinned    int64
		restarted string
	}{
		"restart": {
			of: rolledBack, args: []string{"restart", "ws/shop"}, image: "nginx:1.27.44", restarted: "2026-01-01T12:00:00Z",
			want: "webserver/shop: pods are replaced, spec.rollout.restartedAt is 2026-01-01T12:00:00Z. To take it back: kubectl platform -n shop pin webserver/shop 2\n",
		},
		"a kind and a name apart": {
			of: pinned, args: []string{"pin", "webserver", "shop", "2"}, image: "nginx:1.27.44", pinned: 2,
			want: "webserver/shop: revision 2 is rolled out, and pinned instead of revision 1. To take it back: kubectl platform -n shop pin webserver/shop 1\n",
		},
		"too many arguments": {of: healthy, args: []string{"undo", "webserver", "shop", "1"}, err: "accepts 1 arg(s), received 2: use kubectl platform undo KIND/NAME [flags]"},
		"restart of a pinned object": {
			of: pinned, args: []string{"restart", "ws/shop"}, image: "nginx:1.27.44", pinned: 1, restarted: "2026-01-01T12:00:00Z",
			want: "Warning: revision 1 is pinned: pods change when the pin is removed: kubectl platform -n shop pin webserver/shop --remove\n" +
				"webserver/shop: pods are replaced, spec.rollout.restartedAt is 2026-01-01T12:00:00Z. To take it back: kubectl platform -n shop pin webserver/shop 2\n",
		},
		"restart of an ImmortalContainer": {of: immortal, args: []string{"restart", "immortal/worker"}, err: "objects of kind ImmortalContainer have no rollouts. To replace the pod: kubectl -n shop delete pod worker-immortalpod"},
		"undo": {
			of: healthy, args: []string{"undo", "ws/shop"}, image: "nginx:1.27.44", pinned: 1,
			want: "webserver/shop: revision 1 is rolled out, and pinned. To take it back: kubectl platform -n shop pin webserver/shop --remove\n",
		},
		"undo after a rollback":     {of: rolledBack, args: []string{"undo", "ws/shop"}, err: "webserver/shop was rolled back from revision 3 already, and serves revision 2: correct the spec, or select an earlier one with --to-revision"},
		"undo without revisions":    {of: golden.Cases(t)["quota"], args: []string{"undo", "ws/shop"}, err: "webserver/shop has no revisions yet"},
		"undo of the first":         {of: golden.Cases(t)["ready"], args: []string{"undo", "ws/shop"}, err: "webserver/shop has no healthy revision before revision 1, which serves"},
		"undo to an unknown one":    {of: rolledBack, args: []string{"undo", "ws/shop", "--to-revision", "9"}, err: "revision 9 of webserver/shop is not kept: use one of 1, 2, 3"},
		"undo of an unknown object": {of: rolledBack, args: []string{"undo", "ws/shpo"}, err: `webserver/shpo does not exist in namespace "shop"`},
		"pin": {
			of: pinned, args: []string{"pin", "ws/shop", "2"}, image: "nginx:1.27.44", pinned: 2,
			want: "webserver/shop: revision 2 is rolled out, and pinned instead of revision 1. To take it back: kubectl platform -n shop pin webserver/shop 1\n",
		},
		"pin again":   {of: pinned, args: []string{"pin", "ws/shop", "1"}, err: "revision 1 of webserver/shop is pinned already"},
		"pin no one":  {of: pinned, args: []string{"pin", "ws/shop"}, err: "name a revision, or use --remove"},
		"pin a word":  {of: pinned, args: []string{"pin", "ws/shop", "x"}, err: `"x" is not the number of a revision: kubectl platform -n shop history webserver/shop lists them`},
		"remove none": {of: rolledBack, args: []string{"pin", "ws/shop", "--remove"}, err: "no revision of webserver/shop is pinned"},
		"remove": {
			of: pinned, args: []string{"pin", "ws/shop", "--remove"}, image: "nginx:1.27.44",
			want: "webserver/shop: the spec is rolled out, no revision is pinned. To take it back: kubectl platform -n shop pin webserver/shop 1\n",
		},
		"set-image": {
			of: rolledBack, args: []string{"set-image", "ws/shop", "nginx:1.28.0"}, image: "nginx:1.28.0",
			want: "webserver/shop: spec.image was nginx:1.27.44, is nginx:1.28.0. To take it back: kubectl platform -n shop set-image webserver/shop nginx:1.27.44\n",
		},
		"set-image of an object without one": {
			of: golden.Cases(t)["unschedulable"], args: []string{"set-image", "memcached/sessions", "memcached:1.6"}, image: "memcached:1.6",
			want: `memcached/sessions: spec.image was not set, is memcached:1.6. To take it back: kubectl -n shop patch memcached sessions --type merge -p '{"spec":{"image":null}}'` + "\n",
		},
		"set-image of a paused object": {
			of: golden.Cases(t)["paused"], args: []string{"set-image", "ws/shop", "nginx:1.28.0"}, image: "nginx:1.28.0",
			want: "Warning: spec.paused is true: pods change when it is false\n" +
				"webserver/shop: spec.image was nginx:1.27.3, is nginx:1.28.0. To take it back: kubectl platform -n shop set-image webserver/shop nginx:1.27.3\n",
		},
		"promote": {
			of: with(t, "rolled-back", "  replicas: 2\n", "  replicas: 2\n  canary: {revision: 3}\n"), args: []string{"promote", "ws/shop"}, image: "nginx:1.27.44",
			want: "webserver/shop: all pods of revision 3 are rolled out. To take it back: kubectl platform -n shop undo webserver/shop\n",
		},
		"promote nothing":    {of: rolledBack, args: []string{"promote", "ws/shop"}, err: "webserver/shop has no canary (status.canary)"},
		"the same image":     {of: rolledBack, args: []string{"set-image", "ws/shop", "nginx:1.27.44"}, err: "webserver/shop has the image nginx:1.27.44 already"},
		"object in deletion": {of: golden.Cases(t)["terminating"], args: []string{"restart", "ws/shop"}, err: "webserver/shop is being deleted"},
		"dry run": {
			of: rolledBack, args: []string{"set-image", "ws/shop", "nginx:1.28.0", "--dry-run=server"}, image: "nginx:1.27.44",
			want: "webserver/shop: spec.image was nginx:1.27.44, is nginx:1.28.0 (dry run: nothing was changed). To take it back: kubectl platform -n shop set-image webserver/shop nginx:1.27.44\n",
		},
		"unknown dry run": {of: rolledBack, args: []string{"restart", "ws/shop", "--dry-run=x"}, err: "--dry-run=x must be none or server"},
	} {
		t.Run(name, func(t *testing.T) {
			world(t, tc.of)
			got, err := execute(t, tc.args...)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) || got != "" {
					t.Errorf("got %v, want %q\n%s", err, tc.err, got)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
			after := read(t, together(tc.args[1:])[0])
			pin := int64(0)
			if p := after.state.PinnedRevision; p != nil {
				pin = *p
			}
			restarted, _ := after.get("rollout", "restartedAt").(string)
			if after.get("image") != tc.image || pin != tc.pinned || restarted != tc.restarted {
				t.Errorf("image %v, pinned %d, restarted %q; want %q, %d, %q", after.get("image"), pin, restarted, tc.image, tc.pinned, tc.restarted)
			}
		})
	}
}

// read returns an object of the cluster that commands connect to.
func read(t *testing.T, arg string) target {
	t.Helper()
	cl, err := connect(newFlags())
	if err != nil {
		t.Fatal(err)
	}
	ref, err := cl.Kinds.Parse(arg)
	if err != nil {
		t.Fatal(err)
	}
	obj, state, err := cl.Get(t.Context(), cl.namespace, ref)
	if err != nil {
		t.Fatal(err)
	}
	return target{cluster: cl, ref: ref, obj: obj, state: state}
}

func TestChanges_WarnAboutGitOps(t *testing.T) {
	world(t, golden.Cases(t)["rolled-back"])
	for name, tc := range map[string]struct {
		manager string
		fields  string
		want    []string
	}{
		"kubectl":                {"kubectl-client-side-apply", `{"f:spec":{"f:image":{}}}`, nil},
		"Flux":                   {"kustomize-controller", `{"f:spec":{"f:image":{}}}`, []string{"kustomize-controller sets spec.image again: change it in its repository"}},
		"Argo CD":                {"argocd-controller", `{"f:spec":{"f:image":{}}}`, []string{"argocd-controller sets spec.image again: change it in its repository"}},
		"Argo CD, another field": {"argocd-controller", `{"f:spec":{"f:replicas":{}}}`, []string{"argocd-controller manages webserver/shop, and its repository does not contain this change"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := read(t, "ws/shop")
			o.obj.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: tc.manager, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(tc.fields)}})
			if diff := cmp.Diff(tc.want, o.warnings(change{field: []string{"image"}})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestLogs_NameThePods(t *testing.T) {
	before := openLog
	t.Cleanup(func() { openLog = before })
	openLog = func(_ context.Context, _ cluster, pod string, o *corev1.PodLogOptions) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(o.Container + " of " + pod + "\nlast")), nil
	}
	for name, tc := range map[string]struct{ of, arg, want, err string }{
		"two pods": {of: "rolled-back", arg: "ws/shop", want: "shop-6c4-aaaaa: web of shop-6c4-aaaaa\nshop-6c4-aaaaa: last\nshop-6c4-bbbbb: web of shop-6c4-bbbbb\nshop-6c4-bbbbb: last\n"},
		"one pod":  {of: "container-keeps-exiting", arg: "immortal/worker", want: "web of worker-immortalpod\nlast\n"},
		"no pods":  {of: "quota", arg: "ws/shop", err: "webserver/shop has no pods: kubectl platform -n shop status webserver/shop shows why"},
	} {
		t.Run(name, func(t *testing.T) {
			world(t, golden.Cases(t)[tc.of])
			got, err := execute(t, "logs", tc.arg, "-c", "web")
			if tc.err != "" && (err == nil || err.Error() != tc.err) || tc.err == "" && err != nil {
				t.Errorf("got %v, want %q", err, tc.err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestEvents_AreThoseOfTheObjectAndItsPods(t *testing.T) {
	const event = "apiVersion: v1\nkind: Event\nmetadata: {name: NAME, namespace: shop}\ntype: Warning\nreason: NAME\nmessage: It failed.\ninvolvedObject: {kind: KIND, name: OF, uid: UID}\nlastTimestamp: \"2026-01-01T11:5SECOND:00Z\"\n"
	documents := append([]string{
		"apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: shop-6c4, namespace: shop, uid: rs, labels: {app.kubernetes.io/managed-by: platform-operator}, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: shop, uid: dep-shop}]}\n",
	}, golden.Cases(t)["rolled-back"]...)
	for i, e := range [][4]string{
		{"pod", "Pod", "shop-6c4-aaaaa", "pod-shop-6c4-aaaaa"},
		{"own", "WebServer", "shop", "uid-shop"},
		{"gone", "Pod", "shop-6c4-zzzzz", "gone"},
		{"replicas", "ReplicaSet", "shop-6c4", "rs"},
		{"other", "Pod", "shop-2-aaaaa", "other"},
	} {
		documents = append(documents, strings.NewReplacer("NAME", e[0], "KIND", e[1], "OF", e[2], "UID", e[3], "SECOND", string(rune('0'+i))).Replace(event))
	}
	world(t, documents)
	got, err := execute(t, "events", "ws/shop")
	want := `LAST SEEN  TYPE     REASON    OBJECT               MESSAGE
10m        Warning  pod       pod/shop-6c4-aaaaa   It failed.
9m         Warning  own       webserver/shop       It failed.
8m         Warning  gone      pod/shop-6c4-zzzzz   It failed.
7m         Warning  replicas  replicaset/shop-6c4  It failed.
`
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	world(t, golden.Cases(t)["ready"])
	if got, err := execute(t, "events", "ws/shop"); err != nil || got != "There are no events of webserver/shop. Kubernetes keeps them for an hour.\n" {
		t.Errorf("got %v\n%s", err, got)
	}
}

func newFlags() *cli.ClusterFlags {
	var f cli.ClusterFlags
	f.Register(pflag.NewFlagSet("", pflag.ContinueOnError), true)
	return &f
}
