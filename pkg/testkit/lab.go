package testkit

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/converge"
)

// Main is the TestMain of a package that needs an API server, which it may share
// with other packages: it installs the CRDs of this repository, plays the
// Deployment controller and the kubelets, runs the tests and stops everything.
// root is the path to the repository's top; set receives the environment.
func Main(m *testing.M, root string, addToScheme func(*runtime.Scheme) error, set func(*Env)) {
	runTests(m, root, addToScheme, set, StartShared, true)
}

// MainWithOwnServer is Main for tests that change what concerns all objects of
// an API server, such as webhooks and permissions.
func MainWithOwnServer(m *testing.M, root string, addToScheme func(*runtime.Scheme) error, set func(*Env)) {
	runTests(m, root, addToScheme, set, Start, true)
}

// MainWithoutNodes is MainWithOwnServer for tests that play the Deployment
// controller and the kubelets themselves.
func MainWithoutNodes(m *testing.M, root string, addToScheme func(*runtime.Scheme) error, set func(*Env)) {
	runTests(m, root, addToScheme, set, Start, false)
}

type startFunc func(*runtime.Scheme, ...string) (*Env, error)

func runTests(m *testing.M, root string, addToScheme func(*runtime.Scheme) error, set func(*Env), start startFunc, nodes bool) {
	flag.Parse()
	out := io.Discard
	if testing.Verbose() {
		out = os.Stderr
	}
	log.SetLogger(zap.New(zap.UseDevMode(true), zap.WriteTo(out)))
	code, err := runMain(m, root, addToScheme, set, start, nodes)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runMain(m *testing.M, root string, addToScheme func(*runtime.Scheme) error, set func(*Env), start startFunc, nodes bool) (code int, err error) {
	scheme := runtime.NewScheme()
	if err := addToScheme(scheme); err != nil {
		return 1, fmt.Errorf("making the scheme: %w", err)
	}
	env, err := start(scheme, filepath.Join(root, "config", "crd", "bases"))
	if err != nil {
		return 1, err
	}
	defer func() {
		if stopped := env.Stop(); err == nil {
			err = stopped
		}
	}()
	ctx, cancel := context.WithCancel(context.Background())
	played := make(chan error, 2)
	if nodes {
		go func() { played <- env.Rollouts(ctx) }()
		go func() { played <- env.Kubelet(ctx) }()
	} else {
		played <- nil
		played <- nil
	}
	set(env)
	code = m.Run()
	cancel()
	return code, errors.Join(<-played, <-played)
}

// NewNamespace makes a namespace with a name of its own.
func (e *Env) NewNamespace(t *testing.T) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := e.Admin.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	return ns.Name
}

// Lab is a namespace, an operator that looks after it alone, and an account of
// what that operator requested there.
type Lab struct {
	*testing.T
	*Env
	Namespace string

	subject Subject
	op      *Operator
	seen    int
}

// NewLab makes a namespace. Start starts the operator.
func (e *Env) NewLab(t *testing.T, s Subject) *Lab {
	t.Helper()
	return &Lab{T: t, Env: e, Namespace: e.NewNamespace(t), subject: s}
}

// Start starts an operator, which ends with the test at the latest.
func (l *Lab) Start() *Lab {
	l.Helper()
	op, err := l.Env.Run(l.Context(), l.subject, nil, l.Namespace)
	if err != nil {
		l.Fatal(err)
	}
	l.op = op
	l.Cleanup(op.Cancel)
	return l
}

// Restart stops the operator and starts another, which knows nothing.
func (l *Lab) Restart() {
	l.Helper()
	l.Stop()
	l.Start()
}

// Stop stops the operator.
func (l *Lab) Stop() {
	l.Helper()
	if err := l.op.Stop(); err != nil {
		l.Fatal(err)
	}
}

// Requests returns what the operator has requested since the last call, once
// it has made no request for a second. A later one counts to the next call.
func (l *Lab) Requests() []Request {
	l.Helper()
	rs, err := l.Audit.Quiet(l.Context(), l.Namespace, time.Second)
	if err != nil {
		l.Fatal(err)
	}
	since := rs[l.seen:]
	l.seen = len(rs)
	return since
}

// Expect fails unless exactly these requests were made since the last call, in
// any order: "patch deployments 200".
func (l *Lab) Expect(what string, want ...string) {
	l.Helper()
	l.ExpectOf(0, "", what, want...)
}

// settle is how long figures of the status wait for each other, so that they
// cost one write (docs/decisions/0002-settling-status.md).
const settle = 5 * time.Second

// ExpectOf is Expect of something that took so long. On a busy machine that may
// be longer than figures of the status wait, and each time it is costs one write
// of the status more at the most.
func (l *Lab) ExpectOf(took time.Duration, status, what string, want ...string) {
	l.Helper()
	got := []string{}
	for _, r := range l.Requests() {
		got = append(got, fmt.Sprintf("%s %s %d", r.Verb, r.Resource, r.Code))
	}
	got = l.withoutLostRaces(got)
	want = append([]string{}, want...) // never nil, as got
	for range took / settle {
		if count(got, status) <= count(want, status) {
			break
		}
		l.Logf("%s took %s, and one write of the status more", what, took.Round(time.Second))
		want = append(want, status)
	}
	slices.Sort(got)
	slices.Sort(want)
	if d := cmp.Diff(want, got); d != "" {
		l.Errorf("%s: requests (-want +got):\n%s", what, d)
	}
}

// withoutLostRaces drops the writes of children that the API server refused
// because a controller of Kubernetes had just written a status, and the read
// that follows each of them. Whether that happens is a matter of timing, so
// a budget allows for two of each resource (docs/decisions/0020).
func (l *Lab) withoutLostRaces(requests []string) []string {
	kept, refused, unread := []string{}, map[string]int{}, map[string]int{}
	for _, r := range requests {
		write, lost := strings.CutSuffix(r, " 409")
		written := strings.TrimPrefix(write, "patch ")
		read := strings.TrimSuffix(strings.TrimPrefix(r, "get "), " 200")
		switch {
		case lost && !strings.Contains(written, "/") && refused[written] < 2:
			refused[written]++
			unread[written]++
			l.Logf("%s: the write lost a race", r)
		case unread[read] > 0:
			unread[read]--
		default:
			kept = append(kept, r)
		}
	}
	return kept
}

func count(all []string, what string) int {
	n := 0
	for _, s := range all {
		if s == what {
			n++
		}
	}
	return n
}

// Create creates an object as the admin.
func (l *Lab) Create(obj client.Object) {
	l.Helper()
	if err := l.Admin.Create(l.Context(), obj); err != nil {
		l.Fatal(err)
	}
}

// Get reads an object of the lab's namespace.
func (l *Lab) Get(obj client.Object, name string) {
	l.Helper()
	if err := l.Admin.Get(l.Context(), client.ObjectKey{Namespace: l.Namespace, Name: name}, obj); err != nil {
		l.Fatal(err)
	}
}

// Edit changes an object as somebody with kubectl would.
func (l *Lab) Edit(obj client.Object, name string, change func()) {
	l.Helper()
	l.Get(obj, name)
	before := obj.DeepCopyObject().(client.Object)
	change()
	if err := l.Admin.Patch(l.Context(), obj, client.MergeFrom(before), client.FieldOwner("kubectl-edit")); err != nil {
		l.Fatal(err)
	}
}

// Eventually waits until ok says true, and fails when it does not in time.
func (l *Lab) Eventually(what string, ok func(context.Context) (bool, error)) {
	l.Helper()
	if err := Eventually(l.Context(), what, ok); err != nil {
		l.Fatal(err)
	}
}

// Until reads an object until ok says true of it.
func (l *Lab) Until(what string, obj client.Object, name string, ok func() bool) {
	l.Helper()
	l.Eventually(what, func(ctx context.Context) (bool, error) {
		err := l.Admin.Get(ctx, client.ObjectKey{Namespace: l.Namespace, Name: name}, obj)
		return err == nil && ok(), client.IgnoreNotFound(err)
	})
}

// Ready waits until an object is Ready in its current generation.
func (l *Lab) Ready(obj converge.Object, name string) {
	l.Helper()
	l.Until(name+" to be Ready", obj, name, func() bool {
		st := obj.GetStatus()
		return st.ObservedGeneration == obj.GetGeneration() && meta.IsStatusConditionTrue(st.Conditions, common.ConditionReady)
	})
}

// Stalled waits until an object is Stalled for a reason, and returns the message.
func (l *Lab) Stalled(obj converge.Object, name, reason string) string {
	l.Helper()
	var message string
	l.Until(name+" to be Stalled for "+reason, obj, name, func() bool {
		c := meta.FindStatusCondition(obj.GetStatus().Conditions, common.ConditionStalled)
		if c == nil || c.Reason != reason {
			return false
		}
		message = c.Message
		return true
	})
	return message
}

// Gone waits until an object is gone.
func (l *Lab) Gone(obj client.Object, name string) {
	l.Helper()
	l.Eventually(fmt.Sprintf("%T %s to be gone", obj, name), func(ctx context.Context) (bool, error) {
		err := l.Admin.Get(ctx, client.ObjectKey{Namespace: l.Namespace, Name: name}, obj)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}
