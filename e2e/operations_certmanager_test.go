//go:build e2e

package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// certManager does what cert-manager does for the chart: it writes the Secret of each
// Certificate that is not a CA, which it issues itself instead of the Issuer, and the CA in
// that Secret into the webhook configurations that name the Certificate. Like cert-manager,
// it keeps the Secret of a deleted Certificate.
type certManager struct {
	reader
	ca     *authority
	serial int64
}

// newCertManager installs it until the context ends.
func newCertManager(ctx context.Context, r reader) error {
	for plural, kind := range map[string]string{"issuers": "Issuer", "certificates": "Certificate"} {
		if _, err := run(ctx, fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.cert-manager.io}
spec:
  group: cert-manager.io
  names: {plural: %[1]s, kind: %[2]s}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`, plural, kind), "kubectl", "apply", "-f", "-"); err != nil {
			return err
		}
		if _, err := run(ctx, "", "kubectl", "wait", "--for=condition=Established", "crd", plural+".cert-manager.io"); err != nil {
			return err
		}
	}
	ca, err := newAuthority()
	if err != nil {
		return err
	}
	c := &certManager{reader: r, ca: ca}
	// One does not wait for the other, as in two controllers.
	for _, work := range []func(context.Context) error{c.issue, c.inject} {
		go func() {
			for ; ctx.Err() == nil; time.Sleep(200 * time.Millisecond) {
				_ = work(ctx) // tried again
			}
		}()
	}
	return nil
}

var secrets = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

// certificates returns the Certificates with their Secrets, which may be nil.
func (c *certManager) certificates(ctx context.Context) (map[*unstructured.Unstructured]*unstructured.Unstructured, error) {
	list, err := c.objects.Resource(schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: "certificates"}).
		Namespace(operatorNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	all := map[*unstructured.Unstructured]*unstructured.Unstructured{}
	for i := range list.Items {
		name, _, _ := unstructured.NestedString(list.Items[i].Object, "spec", "secretName")
		secret, err := c.objects.Resource(secrets).Namespace(operatorNamespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			if !apierrors.IsNotFound(err) {
				return nil, err
			}
			secret = nil
		}
		all[&list.Items[i]] = secret
	}
	return all, nil
}

// issue writes Secrets whose certificates are not of this issuer.
func (c *certManager) issue(ctx context.Context) error {
	all, err := c.certificates(ctx)
	for certificate, secret := range all {
		spec, _, _ := unstructured.NestedMap(certificate.Object, "spec")
		if isCA, _ := spec["isCA"].(bool); isCA || c.issued(secret) {
			continue
		}
		err = errors.Join(err, c.write(ctx, certificate.GetName(), spec, secret))
	}
	return err
}

// issued reports whether the Secret has a certificate of this issuer.
func (c *certManager) issued(secret *unstructured.Unstructured) bool {
	if secret == nil {
		return false
	}
	encoded, _, _ := unstructured.NestedString(secret.Object, "data", "tls.crt")
	raw, err := base64.StdEncoding.DecodeString(encoded)
	block, _ := pem.Decode(raw)
	if err != nil || block == nil {
		return false
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	return err == nil && leaf.CheckSignatureFrom(c.ca.cert) == nil
}

func (c *certManager) write(ctx context.Context, name string, spec map[string]any, secret *unstructured.Unstructured) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	c.serial++
	template := unsigned(c.serial)
	template.DNSNames, _, _ = unstructured.NestedStringSlice(spec, "dnsNames")
	template.KeyUsage, template.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	crt, private, err := c.ca.sign(template, key)
	if err != nil {
		return err
	}
	kind := any("kubernetes.io/tls")
	if secret != nil {
		kind = secret.Object["type"] // it cannot be changed
	}
	labels, _, _ := unstructured.NestedMap(spec, "secretTemplate", "labels")
	annotations, _, _ := unstructured.NestedMap(spec, "secretTemplate", "annotations")
	annotations["cert-manager.io/certificate-name"] = name
	encode := base64.StdEncoding.EncodeToString
	secretName, _ := spec["secretName"].(string)
	_, err = c.objects.Resource(secrets).Namespace(operatorNamespace).Apply(ctx, secretName, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": kind,
		"metadata": map[string]any{"name": secretName, "namespace": operatorNamespace, "labels": labels, "annotations": annotations},
		"data": map[string]any{
			"tls.crt": encode([]byte(crt)), "tls.key": encode([]byte(private)),
			"ca.crt": encode(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.ca.cert.Raw})),
		},
	}}, metav1.ApplyOptions{FieldManager: "cert-manager-certificates-issuing", Force: true})
	return err
}

// inject writes CAs into the webhook configurations of the operator.
func (c *certManager) inject(ctx context.Context) error {
	all, err := c.certificates(ctx)
	for certificate, secret := range all {
		bundle := ""
		if secret != nil {
			bundle, _, _ = unstructured.NestedString(secret.Object, "data", "ca.crt")
		}
		for _, resource := range []string{"validatingwebhookconfigurations", "mutatingwebhookconfigurations"} {
			configurations := c.objects.Resource(schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: resource})
			configuration, reading := configurations.Get(ctx, operatorName, metav1.GetOptions{})
			if reading != nil || bundle == "" || configuration.GetAnnotations()["cert-manager.io/inject-ca-from"] != operatorNamespace+"/"+certificate.GetName() {
				err = errors.Join(err, reading)
				continue
			}
			webhooks, _, _ := unstructured.NestedSlice(configuration.Object, "webhooks")
			changed := false
			for _, w := range webhooks {
				client, _ := w.(map[string]any)["clientConfig"].(map[string]any)
				changed = changed || client["caBundle"] != bundle
				client["caBundle"] = bundle
			}
			if changed {
				_ = unstructured.SetNestedSlice(configuration.Object, webhooks, "webhooks")
				_, writing := configurations.Update(ctx, configuration, metav1.UpdateOptions{FieldManager: "cert-manager-cainjector"})
				err = errors.Join(err, writing)
			}
		}
	}
	return err
}
