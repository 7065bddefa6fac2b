package webserver

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/workload"
)

const (
	containerName = "webserver"
	// nginxPort is where the stock nginx image listens.
	nginxPort = 80
	// nginxUser is the user and group "nginx" of the stock image
	// (docker-nginx, stable/debian/Dockerfile: --uid 101, --gid 101).
	nginxUser = 101
)

func deploymentName(w *webserverv1.WebServer) string { return w.Name }
func serviceName(w *webserverv1.WebServer) string    { return w.Name + "-service" }

// labels select the pods. They are the article's and immutable in a
// Deployment, so objects that its operator made can be taken over.
func labels(w *webserverv1.WebServer) map[string]string {
	return map[string]string{"app": "webserver", "webserver_cr": w.Name}
}

// replicas asked for; unset means one.
func replicas(w *webserverv1.WebServer) int32 {
	if w.Spec.Replicas == nil {
		return 1
	}
	return *w.Spec.Replicas
}

// desired returns the children a WebServer should have. It is pure.
func desired(w *webserverv1.WebServer, o Observed, platform config.WebServer) converge.Plan {
	return converge.Plan{Apply: []apply.Intent{deployment(w, o), service(w, o, platform)}}
}

func deployment(w *webserverv1.WebServer, o Observed) apply.Intent {
	cache, cacheMount := workload.Scratch("cache", "/var/cache/nginx")
	run, runMount := workload.Scratch("run", "/run")
	tmp, tmpMount := workload.Scratch("tmp", "/tmp")

	pod := workload.PodSpec().
		WithSecurityContext(workload.RestrictedPod(nginxUser).
			// An unprivileged user may listen on port 80 in this pod.
			WithSysctls(corev1ac.Sysctl().WithName("net.ipv4.ip_unprivileged_port_start").WithValue("0"))).
		WithVolumes(cache, run, tmp).
		WithContainers(corev1ac.Container().
			WithName(containerName).
			WithImage(w.Spec.Image).
			WithPorts(corev1ac.ContainerPort().WithName("http").WithContainerPort(nginxPort).WithProtocol(corev1.ProtocolTCP)).
			WithReadinessProbe(workload.TCPReadiness(nginxPort)).
			WithSecurityContext(workload.RestrictedContainer()).
			WithVolumeMounts(cacheMount, runMount, tmpMount))

	in := workload.Deployment(deploymentName(w), w.Namespace, replicas(w), labels(w), labels(w), pod, containerName)
	in.Changes = changes(w, o.Deployment)
	return in
}

// changes are the article's log lines about an edit of the spec.
func changes(w *webserverv1.WebServer, live *appsv1.Deployment) []apply.Change {
	if live == nil {
		return nil
	}
	var lines []apply.Change
	if live.Spec.Replicas != nil && *live.Spec.Replicas != replicas(w) {
		lines = append(lines, apply.Change{Message: "Deployment spec.replicas change", KeysAndValues: []any{"from", *live.Spec.Replicas, "to", replicas(w)}})
	}
	if cs := live.Spec.Template.Spec.Containers; len(cs) > 0 && cs[0].Image != w.Spec.Image {
		lines = append(lines, apply.Change{Message: "Deployment spec.template.spec.container[0].image change", KeysAndValues: []any{"from", cs[0].Image, "to", w.Spec.Image}})
	}
	return lines
}

func service(w *webserverv1.WebServer, o Observed, platform config.WebServer) apply.Intent {
	kind := serviceType(w, platform)
	port, from := nodePort(w, o, platform, kind)
	in := serviceIntent(w, kind, port)
	if port != 0 && from != asked {
		// Nobody asked for this very port: when it cannot be had, any will do,
		// and to learn which one it became is no reason to write.
		anyPort := serviceIntent(w, kind, 0)
		in.HashAs = &anyPort
		in.Fallback = func(refused error) (apply.Intent, bool) {
			return serviceIntent(w, kind, 0), fault.NodePort(refused)
		}
		if from == had {
			// Somebody's clients know this one. A Service that was just
			// deleted holds its port for a moment longer.
			in.Patience = 10 * time.Second
		}
	}
	return in
}

func serviceIntent(w *webserverv1.WebServer, kind corev1.ServiceType, nodePort int32) apply.Intent {
	port := corev1ac.ServicePort().WithProtocol(corev1.ProtocolTCP).WithPort(servicePort(w)).WithTargetPort(intstr.FromInt(nginxPort))
	if nodePort != 0 {
		port.WithNodePort(nodePort)
	}
	in := apply.New(corev1ac.Service(serviceName(w), w.Namespace).
		WithLabels(labels(w)).
		WithSpec(corev1ac.ServiceSpec().
			WithType(kind).
			WithSelector(labels(w)).
			WithSessionAffinity(corev1.ServiceAffinityNone).
			WithPorts(port)),
		func() *corev1.Service { return &corev1.Service{} })
	in.Exclusive = []string{"spec.ports"}
	return in
}

func servicePort(w *webserverv1.WebServer) int32 {
	if s := w.Spec.Service; s != nil && s.Port != nil {
		return *s.Port
	}
	return nginxPort
}

func serviceType(w *webserverv1.WebServer, platform config.WebServer) corev1.ServiceType {
	switch s := w.Spec.Service; {
	case s != nil && s.Type != "":
		return s.Type
	case s != nil && s.NodePort != nil:
		return corev1.ServiceTypeNodePort
	default:
		return platform.ServiceType
	}
}

// origin is where a node port comes from.
type origin int

const (
	preferred origin = iota // the platform would like it
	had                     // it was the object's before
	asked                   // the user asked for it
)

// nodePort returns the node port to state, 0 for none, and where it comes
// from. A port once had is kept: from the status where the Service was
// deleted, from the Service where a crash kept it out of the status.
func nodePort(w *webserverv1.WebServer, o Observed, platform config.WebServer, kind corev1.ServiceType) (int32, origin) {
	if kind == corev1.ServiceTypeClusterIP {
		return 0, preferred
	}
	if s := w.Spec.Service; s != nil && s.NodePort != nil {
		return *s.NodePort, asked
	}
	if s := w.Status.Service; s != nil && s.NodePort != 0 {
		return s.NodePort, had
	}
	if o.Service != nil && len(o.Service.Spec.Ports) > 0 && o.Service.Spec.Ports[0].NodePort != 0 {
		return o.Service.Spec.Ports[0].NodePort, had
	}
	if kind == corev1.ServiceTypeNodePort {
		return platform.NodePort, preferred
	}
	return 0, preferred
}
