package pki

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func readCertificate(t *testing.T, dir, name string) *x509.Certificate {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key"))
	if err != nil {
		t.Fatalf("certificate %s: %v", name, err)
	}
	return pair.Leaf
}

func TestEnsure_KeepsExistingKeysWhenGrowing(t *testing.T) {
	dir := t.TempDir()
	if err := Ensure(dir, 1); err != nil {
		t.Fatal(err)
	}
	caBefore, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	// Growing keeps existing files: running components have them loaded.
	if err := Ensure(dir, 2); err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	if string(ca) != string(caBefore) {
		t.Error("growing replaced the certificate authority")
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)

	for name, host := range map[string]string{
		"apiserver": "10.10.10.1", "node1-serving": "10.10.10.1", "node2-serving": "10.10.10.2",
	} {
		if _, err := readCertificate(t, dir, name).Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); err != nil {
			t.Errorf("%s does not serve %s: %v", name, host, err)
		}
	}
	client := x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for name, user := range map[string]string{"admin": "admin", "node2": "system:node:node2", "proxy": "system:kube-proxy"} {
		cert := readCertificate(t, dir, name)
		if _, err := cert.Verify(client); err != nil {
			t.Errorf("%s is no client: %v", name, err)
		}
		if cert.Subject.CommonName != user {
			t.Errorf("%s is %s, want %s", name, cert.Subject.CommonName, user)
		}
	}
	if _, err := readCertificate(t, dir, "front-proxy-client").Verify(client); err == nil {
		t.Error("the front proxy's certificate also passes as an ordinary client's")
	}

	kubeconfig, err := os.ReadFile(filepath.Join(dir, "admin.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(kubeconfig), "server: https://10.10.10.1:6443\n") {
		t.Errorf("unexpected server in:\n%s", kubeconfig)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", e.Name(), info.Mode())
		}
	}
}
