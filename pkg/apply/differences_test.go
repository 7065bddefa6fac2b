package apply

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// explain reads complete managed fields, as preflight does.
func (w *world) explain(in Intent) (Preview, error) {
	w.t.Helper()
	before := len(w.writes)
	f, err := NewApplier(w.server, w.server, w.count).Diff(w.t.Context(), owner(), in, true)
	if len(w.writes) != before {
		w.t.Errorf("to explain wrote %v", w.writes[before:])
	}
	return f, err
}

func said(f Preview) []string {
	var all []string
	for _, d := range f.Differences {
		all = append(all, d.String())
	}
	return all
}

func container(d *appsv1ac.DeploymentApplyConfiguration) *corev1ac.ContainerApplyConfiguration {
	return &d.Spec.Template.Spec.Containers[0]
}

// Diff agrees with Apply: it returns Unchanged if and only if Apply sends no
// request.
func TestDiff_AgreesWithApply(t *testing.T) {
	type change = func(*appsv1ac.DeploymentApplyConfiguration)
	const template = "spec.template.spec.containers[web]"
	for name, tc := range map[string]struct {
		before, after change // the stated fields at first, and afterwards
		drift         func(*appsv1.Deployment)
		want          []string
	}{
		"nothing":   {},
		"a number":  {after: replicas(5), want: []string{"spec.replicas would change"}},
		"by hand":   {drift: func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(7)) }, want: []string{"spec.replicas would change"}},
		"of a list": {after: func(d *appsv1ac.DeploymentApplyConfiguration) { container(d).WithImage("nginx:2") }, want: []string{template + ".image would change"}},
		"an element": {after: func(d *appsv1ac.DeploymentApplyConfiguration) {
			container(d).WithPorts(corev1ac.ContainerPort().WithContainerPort(8080).WithProtocol("TCP"))
		}, want: []string{template + ".ports would be added"}},
		"a second element": {
			before: func(d *appsv1ac.DeploymentApplyConfiguration) {
				container(d).WithPorts(corev1ac.ContainerPort().WithContainerPort(80).WithProtocol("TCP"))
			},
			after: func(d *appsv1ac.DeploymentApplyConfiguration) {
				container(d).WithPorts(corev1ac.ContainerPort().WithContainerPort(80).WithProtocol("TCP"), corev1ac.ContainerPort().WithContainerPort(8080).WithProtocol("TCP"))
			},
			want: []string{template + ".ports[8080] would be added"},
		},
		"a list without keys": {
			before: func(d *appsv1ac.DeploymentApplyConfiguration) { container(d).WithArgs("-a") },
			after:  func(d *appsv1ac.DeploymentApplyConfiguration) { container(d).WithArgs("-a", "-b") },
			want:   []string{template + ".args would change"},
		},
		"a struct": {
			after: func(d *appsv1ac.DeploymentApplyConfiguration) {
				container(d).WithReadinessProbe(corev1ac.Probe().WithPeriodSeconds(5))
			},
			want: []string{template + ".readinessProbe would be added"},
		},
		"within a struct": {
			before: func(d *appsv1ac.DeploymentApplyConfiguration) {
				container(d).WithReadinessProbe(corev1ac.Probe().WithPeriodSeconds(5).WithTCPSocket(corev1ac.TCPSocketAction().WithPort(intstr.FromInt32(80))))
			},
			after: func(d *appsv1ac.DeploymentApplyConfiguration) {
				container(d).WithReadinessProbe(corev1ac.Probe().WithPeriodSeconds(6).WithTCPSocket(corev1ac.TCPSocketAction().WithPort(intstr.FromInt32(81))))
			},
			want: []string{template + ".readinessProbe.periodSeconds would change", template + ".readinessProbe.tcpSocket.port would change"},
		},
		"a label": {
			after: func(d *appsv1ac.DeploymentApplyConfiguration) {
				d.Spec.Template.WithLabels(map[string]string{"a/b": "c"})
			},
			want: []string{"spec.template.metadata.labels.a/b would be added"},
		},
		"no longer stated": {
			before: func(d *appsv1ac.DeploymentApplyConfiguration) {
				container(d).WithLifecycle(corev1ac.Lifecycle().WithPreStop(corev1ac.LifecycleHandler().WithSleep(corev1ac.SleepAction().WithSeconds(5))))
				d.Spec.Template.WithAnnotations(map[string]string{"note": "x"})
			},
			want: []string{template + ".lifecycle would be removed", "spec.template.metadata.annotations would be removed"},
		},
		"a container no longer stated": {
			before: func(d *appsv1ac.DeploymentApplyConfiguration) {
				d.Spec.Template.Spec.WithContainers(corev1ac.Container().WithName("helper").WithImage("h:1"))
			},
			want: []string{"spec.template.spec.containers[helper] would be removed"},
		},
		"no longer stated at the API server's own value": {
			before: func(d *appsv1ac.DeploymentApplyConfiguration) {
				d.Spec.Template.Spec.WithTerminationGracePeriodSeconds(30)
			},
			want: []string{"metadata.annotations.platform-operator.io/applied would change"},
		},
		"no longer stated at another value": {
			before: func(d *appsv1ac.DeploymentApplyConfiguration) {
				d.Spec.Template.Spec.WithTerminationGracePeriodSeconds(40)
			},
			want: []string{"spec.template.spec.terminationGracePeriodSeconds would be removed"},
		},
		"no longer stated, and owned by another manager too": {
			before: func(d *appsv1ac.DeploymentApplyConfiguration) { d.Spec.WithMinReadySeconds(3) },
			drift:  func(d *appsv1.Deployment) { d.Spec.MinReadySeconds = 4 },
			want:   []string{"metadata.annotations.platform-operator.io/applied would change"},
		},
		"an addition by another client": {drift: func(d *appsv1.Deployment) {
			d.Annotations["note"] = "mine"
			d.Spec.Template.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": "now"}
		}},
		"an addition in an exclusive path": {
			drift: func(d *appsv1.Deployment) {
				d.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "b"}}
				d.Spec.Template.Spec.Containers[0].Command = []string{"sh"}
			},
			want: []string{template + ".command would be removed", template + ".env would be removed"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			made := func(c change) Intent {
				if c == nil {
					return deployment()
				}
				return deployment(c)
			}
			w.pass(made(tc.before))
			if tc.drift != nil {
				byHand(w, "web", &appsv1.Deployment{}, func(d *appsv1.Deployment) { d.UID = "child-1"; tc.drift(d) })
			}
			f, err := w.explain(made(tc.after))
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(tc.want)
			diff(t, "why", tc.want, said(f))
			want := Changed
			if tc.want == nil {
				want = Unchanged
			}
			diff(t, "action", want, f.Action)

			w.restart()
			if got := w.pass(made(tc.after)); got.Action != f.Action {
				t.Errorf("Apply did %q", got.Action)
			}
			f, err = w.explain(made(tc.after))
			diff(t, "after Apply", Preview{Action: Unchanged, Live: f.Live}, f)
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestDiff_ReadsUncachedChildren(t *testing.T) {
	for name, tc := range map[string]struct {
		live client.Object
		want Action
		err  bool
	}{
		"nothing": {nil, Created, false},
		"a legacy operator's": {&appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", OwnerReferences: ownReferences()},
			Spec:       appsv1.DeploymentSpec{Replicas: new(int32(2))},
		}, TakenOver, false},
		"somebody's": {&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if tc.live != nil {
				if err := w.server.Create(t.Context(), tc.live); err != nil {
					t.Fatal(err)
				}
			}
			f, err := w.applier.Diff(t.Context(), owner(), deployment(), true)
			if tc.err {
				if fault.Classify(err).Class != fault.Stall {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil || f.Action != tc.want {
				t.Errorf("got %q, %v", f.Action, err)
			}
			if tc.want == TakenOver && !slices.Contains(said(f), "metadata.labels would be added") {
				t.Errorf("the label is not among %q", said(f))
			}
		})
	}
}

// A Deployment that is about to be autoscaled keeps its size: fields that are
// handed over are not removed.
func TestDiff_OmitsReleasedFields(t *testing.T) {
	w := newWorld(t)
	w.pass(deployment())
	in := deployment(func(d *appsv1ac.DeploymentApplyConfiguration) { d.Spec.Replicas = nil })
	f, err := w.explain(in)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "without", []string{"spec.replicas would be removed"}, said(f))
	in = deployment(func(d *appsv1ac.DeploymentApplyConfiguration) { d.Spec.Replicas = nil })
	in.ReleaseFields = func(client.Object) runtime.ApplyConfiguration {
		return appsv1ac.Deployment("web", "ns").WithSpec(appsv1ac.DeploymentSpec().WithReplicas(2))
	}
	if f, err = w.explain(in); err != nil {
		t.Fatal(err)
	}
	diff(t, "with", []string{"metadata.annotations." + naming.AnnotationApplied + " would change"}, said(f))
}
