package doctor

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

var noon = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

// certificate returns a certificate that signs itself.
func certificate(t *testing.T, expires time.Time) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: noon.AddDate(0, -1, 0), NotAfter: expires, DNSNames: []string{"webhook.ops.svc"},
		IsCA: true, BasicConstraintsValid: true,
	}
	raw, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}

// cluster is what a test changes before the objects are created.
type cluster struct {
	crd        *apiextensionsv1.CustomResourceDefinition
	mutating   *admissionv1.MutatingWebhookConfiguration
	validating *admissionv1.ValidatingWebhookConfiguration
	endpoints  *discoveryv1.EndpointSlice
	deployment *appsv1.Deployment
	secret     *corev1.Secret
	policy     *admissionv1.ValidatingAdmissionPolicy
	binding    *admissionv1.ValidatingAdmissionPolicyBinding
	lease      *coordinationv1.Lease
	metrics    *unstructured.Unstructured
	ingress    *networkingv1.IngressClass
	gateway    *unstructured.Unstructured
	allowed    string // verbs
	refused    bool   // to list policies
}

func healthy(t *testing.T) *cluster {
	t.Helper()
	leaf := certificate(t, noon.AddDate(0, 1, 0))
	object := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Namespace: "ops", Labels: map[string]string{"app.kubernetes.io/part-of": "platform-operator"}}
	}
	global := func(name string) metav1.ObjectMeta { m := object(name); m.Namespace = ""; return m }
	call := admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "ops", Name: "webhook"}, CABundle: leaf}
	endpoints := &discoveryv1.EndpointSlice{ObjectMeta: object("e"), Endpoints: []discoveryv1.Endpoint{{Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}}}
	endpoints.Labels[discoveryv1.LabelServiceName] = "webhook"
	lease := &coordinationv1.Lease{ObjectMeta: object("platform-operator"), Spec: coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: noon}}}
	is := func(version, kind, name, condition string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": version, "kind": kind, "metadata": map[string]any{"name": name},
			"status": map[string]any{"conditions": []any{map[string]any{"type": condition, "status": "True"}}},
		}}
	}
	return &cluster{
		crd: &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: global("webservers.my.domain"),
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: "my.domain", Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "webservers"},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true}},
			},
			Status: apiextensionsv1.CustomResourceDefinitionStatus{Conditions: []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}},
		},
		mutating: &admissionv1.MutatingWebhookConfiguration{ObjectMeta: global("m"), Webhooks: []admissionv1.MutatingWebhook{{ClientConfig: call}}},
		validating: &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: global("v"), Webhooks: []admissionv1.ValidatingWebhook{{ClientConfig: call, Rules: []admissionv1.RuleWithOperations{
			{Rule: admissionv1.Rule{APIGroups: []string{"my.domain"}, Resources: []string{"webservers"}}},
		}}}},
		endpoints:  endpoints,
		deployment: &appsv1.Deployment{ObjectMeta: object("operator"), Spec: appsv1.DeploymentSpec{Replicas: new(int32(2))}, Status: appsv1.DeploymentStatus{ReadyReplicas: 2}},
		secret:     &corev1.Secret{ObjectMeta: object("webhook-cert"), Data: map[string][]byte{corev1.TLSCertKey: leaf}},
		policy:     &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: global("account")},
		binding:    &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: global("account"), Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "account"}},
		lease:      lease,
		metrics:    is("apiregistration.k8s.io/v1", "APIService", "v1beta1.metrics.k8s.io", "Available"),
		ingress:    &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: "nginx", Annotations: map[string]string{networkingv1.AnnotationIsDefaultIngressClass: "true"}}},
		gateway:    is("gateway.networking.k8s.io/v1", "GatewayClass", "g", "Accepted"),
		allowed:    "update list patch create",
	}
}

func (c *cluster) run(t *testing.T) Checks {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(s), apiextensionsv1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	b := fake.NewClientBuilder().WithScheme(s).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			r := o.(*authorizationv1.SubjectAccessReview)
			r.Status.Allowed = strings.Contains(c.allowed, r.Spec.ResourceAttributes.Verb)
			return nil
		},
		Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			err := w.Get(ctx, key, o, opts...)
			if l, ok := o.(*coordinationv1.Lease); ok {
				l.ManagedFields = []metav1.ManagedFieldsEntry{{Time: &metav1.Time{Time: noon.Add(-time.Hour)}}, {}, {Time: &metav1.Time{Time: noon}}}
			}
			return err
		},
		List: func(ctx context.Context, w client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			if _, ok := l.(*admissionv1.ValidatingAdmissionPolicyList); ok && c.refused {
				return apierrors.NewForbidden(schema.GroupResource{}, "", errors.New(`User "x" cannot list policies`+"\x1b[2J"))
			}
			return w.List(ctx, l, opts...)
		},
	})
	want := healthy(t).crd
	for _, o := range []client.Object{c.mutating, c.validating, c.endpoints, c.deployment, c.secret, c.policy, c.binding, c.lease, c.ingress} {
		if o.GetName() != "" {
			b.WithObjects(o)
		}
	}
	for _, u := range []*unstructured.Unstructured{c.metrics, c.gateway} {
		if u != nil {
			b.WithObjects(u)
		}
	}
	if c.crd != nil {
		b.WithObjects(c.crd)
	}
	d := Doctor{Client: b.Build(), CRDs: []apiextensionsv1.CustomResourceDefinition{*want}, Now: noon}
	return d.Run(t.Context())
}

func TestDoctor_ChecksTheCluster(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*cluster)
		check  string
		state  State
		text   string
		code   int
	}{
		"healthy": {func(*cluster) {}, "CRDs", OK, "all versions", 0},
		"no CRD":  {func(c *cluster) { c.crd = nil }, "CRDs", Failed, "webservers.my.domain is missing", 1},
		"not installed": {func(c *cluster) {
			c.mutating.Labels, c.validating.Labels, c.deployment.Labels = nil, nil, nil
		}, "clock", Note, "not checked", 1},
		"a disabled kind": {func(c *cluster) {
			c.crd, c.validating.Webhooks[0].Rules[0].Resources[0] = nil, "others"
		}, "CRDs", OK, "0, with all versions", 0},
		"a version is not served":  {func(c *cluster) { c.crd.Spec.Versions[0].Served = false }, "CRDs", Failed, "does not serve version v1", 1},
		"a CRD is not established": {func(c *cluster) { c.crd.Status.Conditions = nil }, "CRDs", Failed, "not established", 1},
		"no webhooks":              {func(c *cluster) { c.mutating.Labels = nil }, "webhooks", Failed, "Install the chart again, with webhooks.enabled", 1},
		"no ready endpoint":        {func(c *cluster) { c.endpoints.Endpoints[0].Conditions.Ready = new(false) }, "webhooks", Failed, "no ready endpoint", 1},
		"one replica is not ready": {func(c *cluster) { c.deployment.Status.ReadyReplicas = 1 }, "operator", Failed, "1 of 2", 1},
		"stopped":                  {func(c *cluster) { c.deployment.Spec.Replicas = new(int32(0)) }, "operator", Failed, "Scale it up", 1},
		"no Deployment":            {func(c *cluster) { c.deployment.Labels = nil }, "operator", Failed, "Install it", 1},
		"expires soon":             {func(c *cluster) { c.expire(t, noon.AddDate(0, 0, 3)) }, "certificate", Failed, "not renewed", 1},
		"short-lived":              {func(c *cluster) { c.expire(t, noon.AddDate(0, 0, 6)) }, "certificate", OK, "trusted", 0},
		"expired":                  {func(c *cluster) { c.expire(t, noon.AddDate(0, 0, -3)) }, "certificate", Failed, "not renewed", 1},
		"another CA bundle": {func(c *cluster) {
			c.validating.Webhooks[0].ClientConfig.CABundle = certificate(t, noon.AddDate(1, 0, 0))
		}, "certificate", Failed, "caBundle of validatingwebhookconfiguration/v", 1},
		"no CA bundle":   {func(c *cluster) { c.mutating.Webhooks[0].ClientConfig.CABundle = nil }, "certificate", Failed, "caBundle of mutatingwebhookconfiguration/m", 1},
		"no certificate": {func(c *cluster) { c.secret.Data = nil }, "certificate", Failed, "contains no certificate", 1},
		"a damaged certificate": {func(c *cluster) {
			c.secret.Data[corev1.TLSCertKey] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE"})
		}, "certificate", Failed, "Delete it", 1},
		"no permission":              {func(c *cluster) { c.allowed = "update" }, "permissions", Note, "may not list webservers.my.domain", 0},
		"no permission to lead":      {func(c *cluster) { c.allowed = "" }, "permissions", Failed, "may not update leases.coordination.k8s.io in its namespace", 1},
		"no policies":                {func(c *cluster) { c.policy.Labels = nil }, "admission policies", Note, "admissionPolicy.enabled", 0},
		"a policy without a binding": {func(c *cluster) { c.binding.Spec.PolicyName = "x" }, "admission policies", Failed, "no binding", 1},
		"policies cannot be read":    {func(c *cluster) { c.refused = true }, "admission policies", Unknown, "Your account cannot list policies", 2},
		"the clock is ahead":         {func(c *cluster) { c.lease.Spec.RenewTime = &metav1.MicroTime{Time: noon.Add(time.Minute)} }, "clock", Failed, "1m0s", 1},
		"the clock is behind":        {func(c *cluster) { c.lease.Spec.RenewTime = &metav1.MicroTime{Time: noon.Add(-time.Hour)} }, "clock", Failed, "-1h0m0s", 1},
		"no leader":                  {func(c *cluster) { c.lease.Name = "other" }, "clock", Failed, "no replica of the operator leads", 1},
		"no metrics":                 {func(c *cluster) { c.metrics = nil }, "metrics", Note, "metrics-server", 0},
		"metrics do not answer":      {func(c *cluster) { delete(c.metrics.Object, "status") }, "metrics", Failed, "does not answer", 1},
		"no ingress controller":      {func(c *cluster) { c.ingress.Name = "" }, "Ingress", Note, "Install an ingress controller", 0},
		"no default class":           {func(c *cluster) { c.ingress.Annotations = nil }, "Ingress", Note, "expose.ingress.ingressClassName", 0},
		"no Gateway controller":      {func(c *cluster) { delete(c.gateway.Object, "status") }, "Gateway API", Note, "Install a controller", 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := healthy(t)
			tc.change(c)
			checks := c.run(t)
			for _, k := range checks {
				if k.Name == tc.check && (k.State != tc.state || !strings.Contains(k.Text, tc.text)) {
					t.Errorf("%s: %s, %s", k.Name, k.State, k.Text)
				}
				if name == "healthy" && k.State != OK {
					t.Errorf("%s: %s, %s", k.Name, k.State, k.Text)
				}
			}
			if got := checks.ExitCode(); got != tc.code {
				t.Errorf("exit code %d, want %d: %+v", got, tc.code, checks)
			}
		})
	}
}

func (c *cluster) expire(t *testing.T, at time.Time) {
	leaf := certificate(t, at)
	c.secret.Data[corev1.TLSCertKey] = leaf
	c.mutating.Webhooks[0].ClientConfig.CABundle, c.validating.Webhooks[0].ClientConfig.CABundle = leaf, leaf
}

func TestChecks_PrintsOneLineEach(t *testing.T) {
	var out strings.Builder
	c := Checks{{"CRDs", OK, "4"}, {"admission policies", Failed, "No.\nDo it."}}
	if err := c.Print(&out); err != nil {
		t.Fatal(err)
	}
	want := "ok      CRDs                4\nFAILED  admission policies  No. Do it.\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
