package memcached

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	cachev1alpha1 "github.com/platform-operator/platform-operator/apis/memcached/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/workload"
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

// image is the one asked for, else the one that has served, else the
// platform's: a cache does not lose what it holds because the platform's
// default has changed.
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
// It is part of the pod template: a change of it here replaces every pod.
func containerLimit(m *cachev1alpha1.Memcached) int64 {
	items := memory(m)
	all := items + items/4 + 64*mib + int64(maxConnections(m))*32*kib + int64(threads(m))*mib
	return (all + mib - 1) / mib * mib
}

func quantity(bytes int64) resource.Quantity { return *resource.NewQuantity(bytes, resource.BinarySI) }

// desired returns the children a Memcached should have. It is pure.
func desired(m *cachev1alpha1.Memcached, o Observed, platform config.Memcached) converge.Plan {
	return converge.Plan{Apply: []apply.Intent{deployment(m, platform), service(m, o)}}
}

func deployment(m *cachev1alpha1.Memcached, platform config.Memcached) apply.Intent {
	limit := corev1.ResourceList{corev1.ResourceMemory: quantity(containerLimit(m))}
	pod := workload.PodSpec().
		WithSecurityContext(workload.RestrictedPod(user)).
		WithContainers(corev1ac.Container().
			WithName(containerName).
			WithImage(image(m, platform)).
			WithCommand("memcached").
			WithArgs(args(m)...).
			WithPorts(corev1ac.ContainerPort().WithName(portName).WithContainerPort(port).WithProtocol(corev1.ProtocolTCP)).
			WithReadinessProbe(workload.TCPReadiness(port)).
			// A cache that had to share its memory would be the first to go.
			WithResources(corev1ac.ResourceRequirements().WithRequests(limit).WithLimits(limit)).
			WithSecurityContext(workload.RestrictedContainer()))
	return workload.Deployment(m.Name, m.Namespace, m.Spec.Size, labels(m), labels(m), pod, containerName)
}

// args are the words after "memcached". An option and its value are two words:
// "-m=64" is read as 0.
func args(m *cachev1alpha1.Memcached) []string {
	return []string{
		"-m", strconv.FormatInt(memory(m)/mib, 10),
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
		WithSessionAffinity(corev1.ServiceAffinityNone).
		// A node that is not ready keeps its name: a client that cannot look
		// it up would move its keys elsewhere.
		WithPublishNotReadyAddresses(true).
		WithPorts(corev1ac.ServicePort().WithName(portName).WithProtocol(corev1.ProtocolTCP).WithPort(port).WithTargetPort(intstr.FromInt(port)))
	if headless {
		spec.WithClusterIP(corev1.ClusterIPNone)
	}
	in := apply.New(corev1ac.Service(m.Name, m.Namespace).WithLabels(labels(m)).WithSpec(spec),
		func() *corev1.Service { return &corev1.Service{} })
	in.Exclusive = []string{"spec.ports"}
	return in
}
