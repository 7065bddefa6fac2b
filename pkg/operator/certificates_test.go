package operator

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func pair(t *testing.T) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Date(2036, 1, 1, 0, 0, 0, 0, time.UTC)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}

func TestCertificateIsTakenFromTheSecret(t *testing.T) {
	c := &Certificates{Dir: t.TempDir()}
	r := &certificateReader{c: c}
	certificate, key := pair(t)
	secret := func(crt, key []byte) *corev1.Secret {
		return &corev1.Secret{Data: map[string][]byte{corev1.TLSCertKey: crt, corev1.TLSPrivateKeyKey: key}}
	}
	if _, err := c.get(nil); err == nil {
		t.Error("there is a certificate before there is one")
	}
	if err := r.take(&corev1.Secret{}); err != nil {
		t.Errorf("the empty Secret of an installation: %v", err)
	}
	if _, err := c.get(nil); err == nil {
		t.Error("an empty Secret gave a certificate")
	}

	if err := r.take(secret(certificate, key)); err != nil {
		t.Fatal(err)
	}
	got, err := c.get(nil)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(certificate)
	if !bytes.Equal(got.Certificate[0], block.Bytes) {
		t.Error("another certificate is shown")
	}
	files, err := os.ReadDir(c.Dir)
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v: the key must stay in memory", files, err)
	}
	if raw, err := os.ReadFile(filepath.Join(c.Dir, corev1.TLSCertKey)); err != nil || !bytes.Equal(raw, certificate) {
		t.Errorf("the rotator does not find the certificate: %v", err)
	}

	_, otherKey := pair(t)
	if err := r.take(secret(certificate, otherKey)); err == nil {
		t.Error("a key of another certificate was taken")
	}
	if still, err := c.get(nil); err != nil || !bytes.Equal(still.Certificate[0], block.Bytes) {
		t.Errorf("a broken Secret took the certificate away: %v", err)
	}
}

func TestReadyOnlyWithTheCertificateInPlace(t *testing.T) {
	c := &Certificates{ready: make(chan struct{})}
	if c.check(nil) == nil {
		t.Error("ready too early: the API server would not trust the answer")
	}
	close(c.ready)
	if err := c.check(nil); err != nil {
		t.Error(err)
	}
}

func TestEveryReplicaReadsTheCertificate(t *testing.T) {
	if (&certificateReader{}).NeedLeaderElection() {
		t.Error("only the leader could answer admission")
	}
}
