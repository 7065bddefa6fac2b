package memcached

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	cachev1alpha1 "github.com/platform-operator/platform-operator/apis/memcached/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/resources"
	"github.com/platform-operator/platform-operator/pkg/rollout"
)

const (
	containerName = "memcached"
	portName      = "memcached"
	port          = 11211
	// user is the user and group "memcache" of the stock images (docker-library,
	// memcached/1/debian/Dockerfile and 1/alpine/Dockerfile: 11211).
	user = 11211

	labelApp   = "app"
	labelOwner = "memcached_cr"
	app        = "memcached"

	memoryOption = "-m"

	defaultMaxConnections = 1024
	defaultThreads        = 4

	kib = 1 << 10
	mib = 1 << 20
	// defaultMemory is the seed's -m, which is memcached's own default too.
	defaultMemory = 64 * mib
)

// labels select the pods. They are the seed's and immutable in a Deployment,
// so objects that its operator made can be taken over.
func labels(m *cachev1alpha1.Memcached) map[string]string {
	return map[string]string{labelApp: app, labelOwner: m.Name}
}

// image is what a new revision has: the one asked for, else the one that has
// served, else the platform's. It is part of the revision and stays with it: a
// cache does not lose what it holds because the platform's default has changed.
func image(m *cachev1alpha1.Memcached, platform config.Memcached) string {
	switch {
	case m.Spec.Image != "":
		return m.Spec.Image
	case m.Status.Image != "":
		return m.Status.Image
	default:
		return platform.Image
	}
}

// memory is what items may take, in bytes.
func memory(m *cachev1alpha1.Memcached) int64 {
	if s := m.Spec.Memory; s != nil && s.Size != nil {
		return s.Size.Value()
	}
	return defaultMemory
}

func maxConnections(m *cachev1alpha1.Memcached) int32 {
	return or(m.Spec.MaxConnections, defaultMaxConnections)
}
func threads(m *cachev1alpha1.Memcached) int32 { return or(m.Spec.Threads, defaultThreads) }

func or(p *int32, unset int32) int32 {
	if p == nil {
		return unset
	}
	return *p
}

// containerLimit is the memory limit of the container in bytes. A limit that
// memcached can reach empties a whole node, so it is generous. What there is
// beside the items, by memcached's source (1.6.38):
//
//   - the hash table: 8 bytes a bucket, doubled when there are 1.5 items a
//     bucket, old and new side by side meanwhile (assoc.c): 16 bytes for an
//     item, of which the smallest takes 96. A sixth at most; a quarter, with
//     what the allocator wastes.
//   - pages beyond -m: a slab class that has none gets one of 1 MiB even when
//     the limit is reached (slabs.c, do_slabs_newslab). There are 39 classes by
//     default; with the program itself 64 MiB.
//   - a connection: a read buffer of 16 KiB (memcached.h, READ_BUFFER_SIZE) and
//     as much again for its structures and the kernel's socket buffers.
//   - a thread: 1 MiB for its stack and buffers.
//
// It is part of the pod template: a change of it here reaches a cache with its
// next revision.
func containerLimit(m *cachev1alpha1.Memcached) int64 {
	items := memory(m)
	all := items + items/4 + 64*mib + int64(maxConnections(m))*32*kib + int64(threads(m))*mib
	return (all + mib - 1) / mib * mib
}

func quantity(bytes int64) resource.Quantity { return *resource.NewQuantity(bytes, resource.BinarySI) }

// inputs are what of an object's spec the pods depend on. What is not about
// pods is left out: to change it is no reason to make a revision. An image that
// is not asked for is none of them, so another default of the platform is not
// a change either.
func inputs(m *cachev1alpha1.Memcached) any {
	s := m.Spec.DeepCopy()
	s.Size, s.DeletionPolicy, s.Paused = 0, "", false
	s.Service, s.PodDisruptionBudget, s.NetworkPolicy = nil, nil, nil
	s.Rollout = s.Rollout.Inputs()
	return s
}

// decide decides which template serves. If that is not available or not allowed,
// the template that was decided last keeps serving.
func decide(m *cachev1alpha1.Memcached, o Observed, platform config.Platform) (rollout.Decision, error) {
	q := rollout.Question{
		Kind: cachev1alpha1.Kind, Namespace: m.Namespace, Name: m.Name, Labels: labels(m),
		Inputs: inputs(m), Template: template(m, image(m, platform.Memcached)), Rollout: m.Spec.Rollout, Status: m.Status.RolloutStatus, Conditions: m.Status.Conditions,
	}
	d, _, err := rollout.DecideOrKeep(q, o.Seen, func() (rollout.Decision, error) {
		return decideImage(q, m, o, platform)
	}, func(t *corev1ac.PodTemplateSpecApplyConfiguration) error { return resources.Granted(platform, m, t) })
	return d, err
}

func decideImage(q rollout.Question, m *cachev1alpha1.Memcached, o Observed, platform config.Platform) (rollout.Decision, error) {
	d, err := rollout.Decide(q, o.Seen)
	if err != nil || m.Spec.Image != "" {
		return d, err
	}
	// A revision that is kept has its own image, and to have another is no
	// change that waits.
	kept, err := d.Asked.Template()
	if err != nil {
		return d, err
	}
	if i := imageIn(kept); i != "" && i != image(m, platform.Memcached) {
		q.Template = template(m, i)
		return rollout.Decide(q, o.Seen)
	}
	return d, nil
}

// imageIn is the image of our container in a template.
func imageIn(t *corev1ac.PodTemplateSpecApplyConfiguration) string {
	if t == nil || t.Spec == nil {
		return ""
	}
	for _, c := range t.Spec.Containers {
		if c.Name != nil && *c.Name == containerName && c.Image != nil {
			return *c.Image
		}
	}
	return ""
}

// model is what one reconcile has decided about a Memcached.
type model struct {
	m        *cachev1alpha1.Memcached
	observed Observed
	decision rollout.Decision
	err      error // why the decision is not what the spec asks for
}

func newModel(m *cachev1alpha1.Memcached, o Observed, platform config.Platform) *model {
	d, err := decide(m, o, platform)
	return &model{m: m, observed: o, decision: d, err: err}
}

// Plan returns the children a Memcached should have.
func (x *model) Plan() (converge.Plan, error) {
	m, o, d, err := x.m, x.observed, &x.decision, x.err
	plan := d.Complete(converge.Plan{})
	if p := m.Spec.NetworkPolicy; p != nil {
		ports := []corev1ac.ContainerPortApplyConfiguration{*containerPort()}
		plan.Apply = append(plan.Apply, resources.NetworkPolicy(m.Name, m.Namespace, labels(m), labels(m), ports, p))
	} else if o.Policy != nil {
		plan.Prune = append(plan.Prune, o.Policy)
	}
	// Of what is being deleted only the children's names matter. That nothing can
	// be decided must not keep it.
	going := !m.DeletionTimestamp.IsZero()
	if d.Template != nil || going {
		plan.Apply = append(plan.Apply, d.Deployment(plan, o.Seen, func(t *corev1ac.PodTemplateSpecApplyConfiguration) apply.Intent {
			return deployment(m, t)
		}))
	}
	plan.Apply = append(plan.Apply, service(m, o))
	if budget, wanted := resources.PodDisruptionBudget(m.Name, m.Namespace, labels(m), labels(m), m.Spec.PodDisruptionBudget, m.Spec.Size, resources.Covered(o.Budgets, d.PodLabels(o.Deployment))); wanted {
		plan.Apply = append(plan.Apply, budget)
	} else if o.Budget != nil {
		plan.Prune = append(plan.Prune, o.Budget)
	}
	if going {
		err = nil
	}
	plan.Accompany(apply.Ref{Kind: "Deployment", Name: m.Name})
	return plan, err
}

func deployment(m *cachev1alpha1.Memcached, t *corev1ac.PodTemplateSpecApplyConfiguration) apply.Intent {
	in := resources.Deployment(resources.Rolling{
		Name: m.Name, Namespace: m.Namespace, Replicas: new(m.Spec.Size), Selector: labels(m),
		Template: t, Rollout: m.Spec.Rollout,
	})
	in.CreateAfter = []apply.Ref{{Kind: "NetworkPolicy", Name: m.Name}} // no pod runs before it is isolated
	return in
}

// template is what the pods are made from.
//
// They have no preStop sleep. That is for servers behind a load balancer, which
// goes on sending for a moment; here every client connects by itself, and the
// Service names a pod until it is gone, sleep or not. To sleep would only let
// clients store more in a node that is about to lose it.
func template(m *cachev1alpha1.Memcached, image string) *corev1ac.PodTemplateSpecApplyConfiguration {
	ofPod, ofContainer := resources.SecurityContexts(m.Spec.Security, resources.SecurityDefaults{
		Profile: common.SecurityRestricted, User: user, ReadOnlyRootFilesystem: true,
	})
	c := corev1ac.Container().
		WithName(containerName).
		WithImage(image).
		WithCommand("memcached").
		WithArgs(args(m)...).
		WithPorts(containerPort()).
		WithSecurityContext(ofContainer)
	pod := resources.PodSpec().WithSecurityContext(ofPod)
	resources.Customize(pod, c, resources.Options{
		Container: common.Container{ImagePullPolicy: m.Spec.ImagePullPolicy, ImagePullSecrets: m.Spec.ImagePullSecrets},
		Resources: containerResources(m), Pod: m.Spec.Pod, ReadinessPort: port, Selector: labels(m),
	})
	t := resources.Template(resources.PodLabels(m.Spec.Pod, labels(m)), pod.WithContainers(c)).
		WithAnnotations(resources.PodAnnotations(m.Spec.Pod))
	return rollout.Restarted(t, m.Spec.Rollout)
}

func containerPort() *corev1ac.ContainerPortApplyConfiguration {
	return corev1ac.ContainerPort().WithName(portName).WithContainerPort(port).WithProtocol(corev1.ProtocolTCP)
}

// containerResources are the user's, and the memory, which is the same for request and
// limit: a cache that had to share its memory would be the first to go.
func containerResources(m *cachev1alpha1.Memcached) *common.Resources {
	r := m.Spec.Resources.DeepCopy()
	if r == nil {
		r = &common.Resources{}
	}
	for _, list := range []*corev1.ResourceList{&r.Requests, &r.Limits} {
		if *list == nil {
			*list = corev1.ResourceList{}
		}
		(*list)[corev1.ResourceMemory] = quantity(containerLimit(m))
	}
	return r
}

// args are the words after "memcached". An option and its value are two words:
// "-m=64" is read as 0.
func args(m *cachev1alpha1.Memcached) []string {
	return []string{
		memoryOption, strconv.FormatInt(memory(m)/mib, 10),
		"-c", strconv.FormatInt(int64(maxConnections(m)), 10),
		"-t", strconv.FormatInt(int64(threads(m)), 10),
		"-p", strconv.Itoa(port),
		// No UDP, which 1.4 listens on: strangers amplify attacks by it.
		"-U", "0",
		// As the seed has them: 1.4 needs the first to be like 1.6, in which it
		// does nothing; the second makes memcached tell of its errors.
		"-o", "modern",
		"-v",
	}
}

// service is headless: a client wants to know every node. One that has a
// cluster IP already, as the seed's later samples make it, keeps it: a Service
// cannot lose its IP.
func service(m *cachev1alpha1.Memcached, o Observed) apply.Intent {
	if o.Service != nil && o.Service.Spec.ClusterIP != corev1.ClusterIPNone {
		return serviceIntent(m, false)
	}
	in := serviceIntent(m, true)
	in.Fallback = func(refused error) (apply.Intent, bool) {
		return serviceIntent(m, false), fault.OnlyCause(refused, func(field string) bool {
			return strings.HasPrefix(field, "spec.clusterIP")
		})
	}
	return in
}

func serviceIntent(m *cachev1alpha1.Memcached, headless bool) apply.Intent {
	spec := corev1ac.ServiceSpec().
		WithType(corev1.ServiceTypeClusterIP).
		WithSelector(labels(m)).
		// A node that is not ready keeps its name: a client that cannot look
		// it up would move its keys elsewhere.
		WithPublishNotReadyAddresses(true).
		WithPorts(corev1ac.ServicePort().WithName(portName).WithProtocol(corev1.ProtocolTCP).WithPort(port).WithTargetPort(intstr.FromInt(port)))
	if headless {
		spec.WithClusterIP(corev1.ClusterIPNone)
	}
	ac := corev1ac.Service(m.Name, m.Namespace).WithLabels(labels(m)).WithSpec(spec)
	var options common.ServiceOptions
	if m.Spec.Service != nil {
		options.Annotations = m.Spec.Service.Annotations
	}
	resources.CustomizeService(ac, options)
	in := apply.New(ac, func() *corev1.Service { return &corev1.Service{} })
	// A label more in the selector leaves the pods out.
	in.Exclusive = []string{"spec.ports", "spec.selector"}
	return in
}
