package memcached

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"

	"github.com/platform-operator/platform-operator/apis/common"
	cachev1alpha1 "github.com/platform-operator/platform-operator/apis/memcached/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/resources"
	"github.com/platform-operator/platform-operator/pkg/rollout"
	"github.com/platform-operator/platform-operator/pkg/workload"
)

const (
	containerName = "memcached"
	portName      = "memcached"
	port          = 11211
	// user is the UID and GID of "memcache" in the official images (docker-library,
	// memcached/1/debian/Dockerfile and 1/alpine/Dockerfile: 11211).
	user = 11211

	labelApp   = "app"
	labelOwner = cachev1alpha1.PodLabel
	app        = "memcached"

	memoryOption = "-m"

	defaultMaxConnections = 1024
	defaultThreads        = 4

	kib = 1 << 10
	mib = 1 << 20
	// defaultMemory is the value of -m that the legacy operator sets, which is also
	// the default of memcached.
	defaultMemory = 64 * mib
)

// image returns the image of a new revision: that of the spec, or else the one that
// has been serving, or else the default of the platform. It is part of the revision
// and is kept with it: a cache does not lose its items because the platform's
// default changed.
func image(m *cachev1alpha1.Memcached, platform config.Memcached) string {
	return cmp.Or(m.Spec.Image, m.Status.Image, platform.Image)
}

// memory returns the memory for items in bytes.
func memory(m *cachev1alpha1.Memcached) int64 {
	if s := m.Spec.Memory; s != nil && s.Size != nil {
		return s.Size.Value()
	}
	return defaultMemory
}

func maxConnections(m *cachev1alpha1.Memcached) int32 {
	return ptr.Deref(m.Spec.MaxConnections, defaultMaxConnections)
}
func threads(m *cachev1alpha1.Memcached) int32 { return ptr.Deref(m.Spec.Threads, defaultThreads) }

// containerLimit returns the memory limit of the container in bytes. It is
// generous, because reaching it would kill memcached and lose all items of the
// node. In addition to the items, memcached needs (according to the source of
// 1.6.38):
//
//   - the hash table: 8 bytes per bucket, doubled when there are 1.5 items per
//     bucket, when both tables exist for a while (assoc.c): 16 bytes per item, the
//     smallest of which takes 96. That is at most a sixth; a quarter with the
//     overhead of the allocator.
//   - pages beyond -m: a slab class without pages gets one of 1 MiB even if the
//     limit is reached (slabs.c, do_slabs_newslab). There are 39 classes by
//     default; together with the program itself, 64 MiB.
//   - per connection: a read buffer of 16 KiB (memcached.h, READ_BUFFER_SIZE), and
//     the same again for its structures and the socket buffers of the kernel.
//   - per thread: 1 MiB for its stack and buffers.
//
// It is part of the pod template: if this function changes, a cache gets the new
// limit with its next revision.
func containerLimit(m *cachev1alpha1.Memcached) int64 {
	items := memory(m)
	all := items + items/4 + 64*mib + int64(maxConnections(m))*32*kib + int64(threads(m))*mib
	return (all + mib - 1) / mib * mib
}

func quantity(bytes int64) resource.Quantity { return *resource.NewQuantity(bytes, resource.BinarySI) }

// inputs returns what the pods depend on. Fields that do not affect pods are
// omitted, so that a change of one does not create a revision. An image that the
// spec does not set is omitted too, so that another default of the platform does
// not create a revision either.
func inputs(m *cachev1alpha1.Memcached) any {
	s := m.Spec.DeepCopy()
	s.Size, s.DeletionPolicy, s.Paused = 0, "", false
	s.Service, s.PodDisruptionBudget, s.NetworkPolicy = nil, nil, nil
	s.Rollout = s.Rollout.Inputs()
	return s
}

// object is a Memcached as one reconcile handles it.
type object struct {
	workload.Defaults
	m        *cachev1alpha1.Memcached
	observed workload.Observed
	platform config.Platform
}

// Spec returns the parts of spec and status that kinds share.
func (x *object) Spec() workload.Spec {
	m := x.m
	return workload.Spec{
		Kind: cachev1alpha1.Kind, Owner: m, Labels: m.PodLabels(), Container: containerName, Profile: common.SecurityRestricted, Commands: commands, Service: m.Name,
		Replicas: m.Spec.Size, Rollout: m.Spec.Rollout, RolloutStatus: &m.Status.RolloutStatus,
		PodDisruptionBudget: m.Spec.PodDisruptionBudget, NetworkPolicy: m.Spec.NetworkPolicy,
		Ports: []*corev1ac.ContainerPortApplyConfiguration{containerPort()},
	}
}

// Pods returns the inputs and the template of the pods.
func (x *object) Pods() (any, *corev1ac.PodTemplateSpecApplyConfiguration, error) {
	return inputs(x.m), template(x.m, image(x.m, x.platform.Memcached), x.platform.Pods), nil
}

// Adopt keeps the image of a revision that exists if the spec does not name one:
// another default image is no pending change.
func (x *object) Adopt(existing rollout.Revision) (*corev1ac.PodTemplateSpecApplyConfiguration, error) {
	if x.m.Spec.Image != "" {
		return nil, nil
	}
	kept, err := existing.Template()
	if err != nil {
		return nil, err
	}
	i := imageIn(kept)
	if i == "" || i == image(x.m, x.platform.Memcached) {
		return nil, nil
	}
	return template(x.m, i, x.platform.Pods), nil
}

// Deployment returns the Deployment.
func (x *object) Deployment(build func(map[string]string) apply.Intent, _ *corev1ac.PodTemplateSpecApplyConfiguration) apply.Intent {
	return build(x.m.PodLabels())
}

// AddService adds the Service.
func (x *object) AddService(plan *converge.Plan, _ workload.Ports) {
	plan.Apply = append(plan.Apply, service(x.m, x.observed))
}

// imageIn returns the image of the managed container in a template.
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

// template returns the desired pod template.
//
// It has no preStop sleep, which is useful for servers behind a load balancer that
// keeps sending requests for a moment. Here every client connects directly, and the
// Service resolves to a pod until it is deleted, with or without a sleep. During a
// sleep clients would only store more items in a node that is about to lose them.
func template(m *cachev1alpha1.Memcached, image string, platform config.Pods) *corev1ac.PodTemplateSpecApplyConfiguration {
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
		Resources: containerResources(m), Pod: m.Spec.Pod, ReadinessPort: port, Selector: m.PodLabels(),
	})
	resources.OnNodes(pod, platform)
	t := resources.Template(resources.PodLabels(m.Spec.Pod, m.PodLabels()), pod.WithContainers(c)).
		WithAnnotations(resources.PodAnnotations(m.Spec.Pod))
	return rollout.Restarted(t, m.Spec.Rollout)
}

func containerPort() *corev1ac.ContainerPortApplyConfiguration {
	return corev1ac.ContainerPort().WithName(portName).WithContainerPort(port).WithProtocol(corev1.ProtocolTCP)
}

// containerResources returns the user's resources, with the memory as both request
// and limit: a cache on a node without enough memory would be among the first
// containers to be killed.
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

// commands matches memcached with options, which other versions of the operator may set.
var commands = regexp.MustCompile(`^(memcached( |$))?(-[a-zA-Z](=\d+)?( [a-z_]+| \d+)?( |$))*$`)

// args returns the arguments of memcached. An option and its value are separate
// arguments: "-m=64" is parsed as 0.
func args(m *cachev1alpha1.Memcached) []string {
	return []string{
		memoryOption, strconv.FormatInt(memory(m)/mib, 10),
		"-c", strconv.FormatInt(int64(maxConnections(m)), 10),
		"-t", strconv.FormatInt(int64(threads(m)), 10),
		"-p", strconv.Itoa(port),
		// No UDP, which 1.4 listens on by default: it can be abused for
		// amplification attacks.
		"-U", "0",
		// As in the legacy operator: 1.4 needs the first option to behave like 1.6,
		// in which it has no effect; the second one makes memcached log errors.
		"-o", "modern",
		"-v",
	}
}

// service returns the intent of the Service. It is headless, because clients need
// to know every node. A Service that already has a cluster IP, as in later samples
// of the legacy operator, keeps it, because the cluster IP of a Service cannot be
// removed.
func service(m *cachev1alpha1.Memcached, o workload.Observed) apply.Intent {
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
		WithSelector(m.PodLabels()).
		// A node that is not ready remains resolvable: a client that cannot resolve
		// it would move its keys to other nodes.
		WithPublishNotReadyAddresses(true).
		WithPorts(corev1ac.ServicePort().WithName(portName).WithProtocol(corev1.ProtocolTCP).WithPort(port).WithTargetPort(intstr.FromInt(port)))
	if headless {
		spec.WithClusterIP(corev1.ClusterIPNone)
	}
	ac := corev1ac.Service(m.Name, m.Namespace).WithLabels(m.PodLabels()).WithSpec(spec)
	var options common.ServiceOptions
	if m.Spec.Service != nil {
		options.Annotations = m.Spec.Service.Annotations
	}
	return resources.Service(ac, options)
}
