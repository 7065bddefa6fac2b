package webserver

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/conditions"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/resources"
	"github.com/platform-operator/platform-operator/pkg/rollout"
	"github.com/platform-operator/platform-operator/pkg/workload"
)

// UpdateStatus writes the part of the status that only a WebServer has.
func (x *object) UpdateStatus(r workload.Result) {
	w, st, d, s := x.w, &x.w.Status, r.Deployment, r.Service
	if left, known := x.certificateLeft(); known && left > 0 {
		r.RequeueAfter(min(left, 24*time.Hour)) // no event reports that it expires
	}
	m := x.material
	if !r.Current {
		m = material{} // parts of it may be missing
	}
	reportConfig(w, r.Decision, m, r.Serves, r.Outcome)
	st.Selector = metav1.FormatLabelSelector(metav1.SetAsLabelSelector(w.PodLabels()))
	if d != nil {
		st.Replicas, st.ReadyReplicas, st.UpdatedReplicas = d.Status.Replicas, d.Status.ReadyReplicas, d.Status.UpdatedReplicas
	}
	// If no Service exists, what was known of it stays: its node port must be the
	// same when it is created again.
	if s != nil {
		st.Service = serviceStatus(s)
		all := slices.Concat(r.Hosts, addresses(s))
		st.Addresses = all[:min(len(all), maxAddresses)]
	}
	if st.Service != nil {
		st.Service.DefaultType = ""
		if asked := w.Spec.Service; asked == nil || asked.Type == "" && asked.NodePort == nil {
			st.Service.DefaultType = x.platform.WebServer.ServiceType
		}
	}
}

// reportConfig sets the ConfigValid condition, which reports whether nginx accepts
// the configuration in the spec. serves says that all pods of the desired revision
// are serving.
func reportConfig(w *webserverv1.WebServer, d rollout.Decision, m material, serves bool, out converge.Outcome) {
	st := &w.Status
	if !configured(w) {
		meta.RemoveStatusCondition(&st.Conditions, webserverv1.ConditionConfigValid)
		return
	}
	var r common.Revisions
	if st.Revisions != nil {
		r = *st.Revisions
	}
	asked := d.Desired.Number
	known := m.config != nil && asked > 0
	was := meta.IsStatusConditionTrue(st.Conditions, webserverv1.ConditionConfigValid)
	refused := ""
	if r.Failed == asked {
		refused = refusal(st.LastActions, asked)
	}
	// The pods of a canary serve, although they do not count as available.
	held := st.Canary != nil && st.Canary.Revision == asked && st.Canary.ReadyPods > 0
	c, holds := conditions.False(msgConfigUntested), metav1.ConditionUnknown
	switch {
	case !known:
		c = conditions.False(msgConfigUnknown)
	case refused != "":
		c, holds = conditions.Condition{Reason: webserverv1.ReasonInvalid, Message: refused}, metav1.ConditionFalse
	case held, r.Current == asked && serves, r.LastHealthy == asked && was: // without pods nothing was tested
		c, holds = conditions.True(msgConfigAccepted), metav1.ConditionTrue
	}
	conditions.Set(&st.Status, w.Generation, out.Now, webserverv1.ConditionConfigValid, holds, c)
}

// refusal returns the error that nginx reported about the configuration of a
// revision, or "" if its rollout did not fail because of that.
func refusal(actions []common.Action, revision int64) string {
	for _, a := range actions {
		if a.Revision == revision {
			if a.Reason == rollout.ReasonConfigInvalid {
				return a.Message
			}
			return ""
		}
	}
	return ""
}

func serviceStatus(s *corev1.Service) *webserverv1.ServiceStatus {
	http := httpPort(s)
	return &webserverv1.ServiceStatus{
		Name: s.Name, Type: s.Spec.Type, Port: http.Port, NodePort: http.NodePort,
		HTTPSNodePort: httpsPort(s).NodePort,
	}
}

// maxAddresses is the maximum number of addresses in the status.
const maxAddresses = 32

// addresses returns the addresses of the Service, beginning with those that can be
// reached from the most places, and with https before http.
func addresses(s *corev1.Service) []common.Address {
	var as []common.Address
	add := func(kind common.AddressType, host string, port func(corev1.ServicePort) int32) {
		if p := port(httpsPort(s)); p != 0 {
			as = append(as, common.Address{Type: kind, URL: resources.URL("https", host, p)})
		}
		if p := port(httpPort(s)); p != 0 {
			as = append(as, common.Address{Type: kind, URL: resources.URL("http", host, p)})
		}
	}
	port := func(p corev1.ServicePort) int32 { return p.Port }
	for _, in := range s.Status.LoadBalancer.Ingress {
		add(common.AddressLoadBalancer, cmp.Or(in.Hostname, in.IP), port)
	}
	add(common.AddressNodePort, "<node>", func(p corev1.ServicePort) int32 { return p.NodePort })
	add(common.AddressCluster, s.Name+"."+s.Namespace+".svc", port)
	return as
}
