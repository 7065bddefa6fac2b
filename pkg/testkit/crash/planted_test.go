//go:build envtest

package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/platform-operator/platform-operator/apis/common"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/testkit"
)

var plantedEnv *testkit.Env

func TestMain(m *testing.M) {
	os.Exit(func() int {
		log.SetLogger(logr.Discard()) // the logs of the operators contain nothing that the findings do not
		scheme := runtime.NewScheme()
		if err := errors.Join(clientgoscheme.AddToScheme(scheme), webserverv1.AddToScheme(scheme)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		var err error
		if plantedEnv, err = testkit.StartShared(scheme, filepath.Join("..", "..", "..", "config", "crd", "bases")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		plantedEnv.Unconfine()
		ctx, cancel := context.WithCancel(context.Background())
		if err := slowRollouts(ctx, plantedEnv); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		code := m.Run()
		cancel()
		if err := plantedEnv.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		return code
	}())
}

// slowRollouts simulates Deployments like real ones, which are rolled out some time
// after they change. This exposes operators that do not wait for it.
func slowRollouts(ctx context.Context, e *testkit.Env) error {
	w, err := e.Admin.Watch(ctx, &appsv1.DeploymentList{})
	if err != nil {
		return err
	}
	go func() {
		defer w.Stop()
		for ev := range w.ResultChan() {
			if d, ok := ev.Object.(*appsv1.Deployment); ok {
				time.AfterFunc(100*time.Millisecond, func() { _ = e.Rollout(ctx, d) }) // if it fails, no object becomes Ready
			}
		}
	}()
	return nil
}

// bug is a mistake that operators are known to make.
type bug string

const (
	none          bug = ""
	counts        bug = "counts by ++ before it acts"
	statusFirst   bug = "writes the status before the child and trusts it"
	noOwner       bug = "creates without an owner and adds it at once"
	byName        bug = "deletes by name only"
	staleReady    bug = "says Ready for a generation that is not rolled out"
	generatesName bug = "creates under a generated name and records it afterwards"
	edge          bug = "acts on a change that it saw and not on the state"
	stamps        bug = "writes at every start"
	looks         bug = "reads past the cache in every reconcile"
	rebuilds      bug = "deletes and creates what it does not remember"
)

// simple is a minimal operator, written by hand: it creates a Deployment for each
// WebServer, and none for 0 replicas. It has at most one bug.
type simple struct {
	client.Client
	live client.Reader
	bug  bug
	seen map[types.UID]int64 // the outdated state of an operator with that bug
}

func (s *simple) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	w := &webserverv1.WebServer{}
	if err := s.Get(ctx, req.NamespacedName, w); err != nil || !w.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if s.bug == looks {
		if err := s.live.Get(ctx, req.NamespacedName, w); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
	}
	before := w.DeepCopy()
	d, err := s.child(ctx, w)
	if err != nil {
		return ctrl.Result{}, err
	}
	if d != nil && !metav1.IsControlledBy(d, w) && s.bug != noOwner {
		return ctrl.Result{RequeueAfter: 50 * time.Millisecond}, nil // of an earlier object, and being deleted
	}
	then := d.DeepCopy()
	if d, err = s.act(ctx, w, d); err != nil {
		return quietly(err)
	}
	if s.bug == staleReady && then != nil {
		d.Status, d.Generation = then.Status, then.Generation
	}
	s.report(w, d)
	if equality.Semantic.DeepEqual(before.Status, w.Status) {
		return ctrl.Result{}, nil
	}
	return quietly(s.Status().Update(ctx, w))
}

func quietly(err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return ctrl.Result{RequeueAfter: 20 * time.Millisecond}, nil
	}
	return ctrl.Result{}, client.IgnoreNotFound(err)
}

func (s *simple) child(ctx context.Context, w *webserverv1.WebServer) (*appsv1.Deployment, error) {
	name := w.Name
	if s.bug == generatesName {
		if w.Status.Service == nil {
			return nil, nil
		}
		name = w.Status.Service.Name
	}
	d := &appsv1.Deployment{}
	err := s.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: name}, d)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return d, err
}

// act creates or updates the child and returns it.
func (s *simple) act(ctx context.Context, w *webserverv1.WebServer, d *appsv1.Deployment) (*appsv1.Deployment, error) {
	last, known := s.seen[w.UID]
	s.seen[w.UID] = w.Generation
	want := *w.Spec.Replicas
	switch {
	case d == nil && want > 0:
		return s.create(ctx, w)
	case d == nil:
		return nil, nil
	case want == 0 || s.bug == rebuilds && !known:
		return nil, s.delete(ctx, d)
	case s.bug == edge && (!known || last == w.Generation):
		return d, nil
	case s.bug == noOwner && metav1.GetControllerOf(d) == nil:
		if err := controllerutil.SetControllerReference(w, d, s.Scheme()); err != nil {
			return nil, err
		}
		return d, s.Update(ctx, d)
	case s.bug == stamps && !known:
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, "started", time.Now().Format(time.RFC3339Nano))
		return d, s.Update(ctx, d)
	}
	same := d.Spec.Template.Spec.Containers[0].Image == w.Spec.Image && *d.Spec.Replicas == want
	if s.bug == statusFirst {
		same = w.Status.ObservedGeneration == w.Generation
	}
	if same {
		return d, nil
	}
	switch s.bug {
	case counts:
		w.Status.UpdatedReplicas++
		if err := s.Status().Update(ctx, w); err != nil {
			return nil, err
		}
	case statusFirst:
		w.Status.ObservedGeneration = w.Generation
		meta.SetStatusCondition(&w.Status.Conditions, metav1.Condition{Type: common.ConditionReady, Status: metav1.ConditionFalse, Reason: "Updating"})
		if err := s.Status().Update(ctx, w); err != nil {
			return nil, err
		}
	}
	d.Spec.Template.Spec.Containers[0].Image, d.Spec.Replicas = w.Spec.Image, &want
	return d, s.Update(ctx, d)
}

func (s *simple) create(ctx context.Context, w *webserverv1.WebServer) (*appsv1.Deployment, error) {
	// A child may have been deleted together with its owner, whose deletion the
	// cache may not contain yet.
	now := &webserverv1.WebServer{}
	if err := s.live.Get(ctx, client.ObjectKeyFromObject(w), now); err != nil {
		return nil, err
	}
	if now.UID != w.UID {
		return nil, apierrors.NewConflict(appsv1.Resource("deployments"), w.Name, errors.New("another object has taken the owner's place"))
	}
	pods := map[string]string{"app": w.Name}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name, Labels: map[string]string{naming.LabelManagedBy: naming.ManagedBy}},
		Spec: appsv1.DeploymentSpec{
			Replicas: w.Spec.Replicas,
			Selector: &metav1.LabelSelector{MatchLabels: pods},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: pods},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: w.Spec.Image}}},
			},
		},
	}
	if s.bug == generatesName {
		d.Name, d.GenerateName = "", w.Name+"-"
	}
	if s.bug != noOwner {
		if err := controllerutil.SetControllerReference(w, d, s.Scheme()); err != nil {
			return nil, err
		}
	}
	return d, s.Create(ctx, d)
}

func (s *simple) delete(ctx context.Context, d *appsv1.Deployment) error {
	if s.bug == byName {
		return client.IgnoreNotFound(s.Delete(ctx, d))
	}
	return client.IgnoreNotFound(s.Delete(ctx, d, client.Preconditions{UID: &d.UID}))
}

func (s *simple) report(w *webserverv1.WebServer, d *appsv1.Deployment) {
	ready := metav1.Condition{Type: common.ConditionReady, Status: metav1.ConditionFalse, Reason: "Progressing"}
	want := *w.Spec.Replicas
	if d == nil && want == 0 || d != nil && d.Status.ObservedGeneration == d.Generation && d.Status.AvailableReplicas == want {
		ready.Status, ready.Reason = metav1.ConditionTrue, "Serving"
	}
	meta.SetStatusCondition(&w.Status.Conditions, ready)
	w.Status.ObservedGeneration = w.Generation
	if s.bug == generatesName && d != nil {
		w.Status.Service = &webserverv1.ServiceStatus{Name: d.Name}
	}
}

// plantedServes is what Ready should mean for the simple operator.
func plantedServes(ctx context.Context, r client.Reader, parent client.Object) error {
	w := parent.(*webserverv1.WebServer)
	l := &appsv1.DeploymentList{}
	if err := r.List(ctx, l, client.InNamespace(w.Namespace)); err != nil {
		return err
	}
	want := *w.Spec.Replicas
	if want == 0 && len(l.Items) == 0 {
		return nil
	}
	if len(l.Items) != 1 {
		return fmt.Errorf("there are %d Deployments", len(l.Items))
	}
	d := l.Items[0]
	if d.Spec.Template.Spec.Containers[0].Image != w.Spec.Image || d.Status.ObservedGeneration != d.Generation || d.Status.AvailableReplicas != want {
		return errors.New("the Deployment is not rolled out")
	}
	return nil
}

func planted(b bug, scenarios ...string) Campaign {
	all := []Scenario{
		{Name: "create", Act: plantedCreate, Converged: plantedReady},
		{Name: "update", Prepare: plantedFleet, Act: plantedEdit(func(w *webserverv1.WebServer) { w.Spec.Image = "nginx:2" }), Converged: plantedReady},
		{Name: "stop", Prepare: plantedFleet, Act: plantedEdit(func(w *webserverv1.WebServer) { w.Spec.Replicas = new(int32(0)) }), Converged: plantedReady},
		{Name: "re-create", Prepare: plantedFleet, Act: func(ctx context.Context, w World) error {
			return errors.Join(plantedDelete(ctx, w), plantedCreate(ctx, w))
		}, Converged: plantedReady},
	}
	all = slices.DeleteFunc(all, func(s Scenario) bool { return !slices.Contains(scenarios, s.Name) })
	return Campaign{
		Env: plantedEnv,
		Subject: testkit.Subject{
			Children: []client.Object{&appsv1.Deployment{}},
			Setup: func(mgr manager.Manager, _ *apply.Applier) error {
				return ctrl.NewControllerManagedBy(mgr).For(&webserverv1.WebServer{}).Owns(&appsv1.Deployment{}).
					Complete(&simple{Client: mgr.GetClient(), live: mgr.GetAPIReader(), bug: b, seen: map[types.UID]int64{}})
			},
		},
		Parents: []client.Object{&webserverv1.WebServer{}},
		Serves:  plantedServes, Scenarios: all,
		Quiet: 500 * time.Millisecond, // the simple operator does not postpone writes
	}
}

func plantedCreate(ctx context.Context, w World) error {
	return w.Create(ctx, &webserverv1.WebServer{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       webserverv1.WebServerSpec{Image: "nginx:1", Replicas: new(int32(2))},
	})
}

func plantedFleet(ctx context.Context, w World) error {
	if err := plantedCreate(ctx, w); err != nil {
		return err
	}
	return testkit.Eventually(ctx, "the fleet to be Ready", func(ctx context.Context) (bool, error) { return plantedReady(ctx, w) })
}

func plantedEdit(change func(*webserverv1.WebServer)) func(context.Context, World) error {
	return func(ctx context.Context, w World) error {
		o := &webserverv1.WebServer{}
		return w.Edit(ctx, "web", o, func() { change(o) })
	}
}

func plantedDelete(ctx context.Context, w World) error {
	return w.Client.Delete(ctx, &webserverv1.WebServer{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "web"}})
}

func plantedReady(ctx context.Context, w World) (bool, error) {
	o := &webserverv1.WebServer{}
	err := w.Get(ctx, "web", o)
	return o.Status.ObservedGeneration == o.Generation && meta.IsStatusConditionTrue(o.Status.Conditions, common.ConditionReady), err
}

// errEnough is why the rest of a campaign is not run.
var errEnough = errors.New("something was found")

// findings runs a campaign until soon after its first finding.
func findings(ctx context.Context, c Campaign) ([]Finding, error) {
	group, ctx := errgroup.WithContext(ctx)
	p := newPool(c)
	var mu sync.Mutex
	var found []Finding
	take := func(r *result) error {
		mu.Lock()
		defer mu.Unlock()
		if found = append(found, r.findings...); len(found) > 0 {
			return errEnough
		}
		return nil
	}
	for _, s := range c.Scenarios {
		group.Go(func() error {
			ref, err := p.learn(ctx, s)()
			if err != nil {
				return err
			}
			for _, r := range ref.runs {
				if err := take(r); err != nil {
					return err
				}
			}
			var runs []func() (*result, error)
			for _, at := range points(ref.writes) {
				runs = append(runs, p.run(ctx, s, at, ref))
			}
			for _, done := range runs {
				r, err := done()
				if err == nil {
					err = take(r)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); !errors.Is(err, errEnough) {
		return found, err
	}
	return found, nil
}

// A campaign without findings proves little unless it is known to find existing
// bugs.
func TestCampaign_FindsPlantedBugs(t *testing.T) {
	if os.Getenv("CRASH") != "all" {
		t.Skip("it tests the campaign, not the operator: make campaign-crash runs it")
	}
	t.Parallel()
	for b, tt := range map[bug]struct {
		scenario string
		asked    string // the check that finds it
	}{
		counts:        {"update", "end state"},
		statusFirst:   {"update", "end state"},
		noOwner:       {"create", "ownership"},
		byName:        {"stop", "deletes"},
		staleReady:    {"update", "status"},
		generatesName: {"create", "writes"},
		edge:          {"update", "end state"},
		stamps:        {"create", "stability"},
		looks:         {"create", "stability"},
		rebuilds:      {"update", "stability"},
	} {
		t.Run(string(b), func(t *testing.T) {
			t.Parallel()
			c := planted(b, tt.scenario)
			c.Within, c.Parallel = 20*time.Second, 4
			found, err := findings(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(found, func(f Finding) bool { return f.Asked == tt.asked }) {
				t.Errorf("%q is not found by asking for %s; found: %v", b, tt.asked, found)
			}
			for _, f := range found {
				t.Log(f)
			}
		})
	}
}

func TestCampaign_FindsNothingInACorrectOperator(t *testing.T) {
	t.Parallel()
	planted(none, "update", "stop", "re-create").Test(t)
}
