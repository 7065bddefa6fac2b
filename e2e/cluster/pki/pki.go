// Package pki creates the certificate authorities, certificates, keys and
// kubeconfigs of a cluster.
package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/platform-operator/platform-operator/e2e/cluster/config"
	"github.com/platform-operator/platform-operator/e2e/cluster/safefile"
)

// Certificates outlive any test cluster; each cluster has its own.
const certificateLifetime = 365 * 24 * time.Hour

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// identity is what one certificate says about its holder.
type identity struct {
	file   string // base name of the .crt and .key files
	name   string // common name: the user, for clients
	groups []string
	hosts  []string // DNS names and addresses: makes it a serving certificate
}

// Ensure creates the keys, certificates and kubeconfigs of a cluster with
// that many nodes. What exists is kept, so a cluster can grow.
func Ensure(dir string, nodes int) error {
	if err := safefile.MakeDirs(dir); err != nil {
		return err
	}
	ca, err := ensureAuthority(dir, "ca", "cluster-ca")
	if err != nil {
		return err
	}
	// The aggregation layer trusts a second authority, so that no ordinary
	// client certificate can pass for the API server speaking for a user.
	frontProxy, err := ensureAuthority(dir, "front-proxy-ca", "cluster-front-proxy-ca")
	if err != nil {
		return err
	}
	// Its key signs the tokens of service accounts.
	if _, err := ensureAuthority(dir, "service-accounts", "cluster-service-accounts"); err != nil {
		return err
	}

	identities := []identity{
		{file: "apiserver", name: "kube-apiserver", hosts: []string{
			"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
			"kubernetes.default.svc.cluster.local", "127.0.0.1", config.APIServiceIP, config.NodeIP(config.ControlNode),
		}},
		{file: "apiserver-kubelet-client", name: "kube-apiserver-kubelet-client", groups: []string{"system:masters"}},
		{file: "admin", name: "admin", groups: []string{"system:masters"}},
		{file: "controller-manager", name: "system:kube-controller-manager"},
		{file: "scheduler", name: "system:kube-scheduler"},
		{file: "proxy", name: "system:kube-proxy"},
	}
	for n := 1; n <= nodes; n++ {
		identities = append(identities,
			identity{file: config.NodeName(n) + "-serving", name: config.NodeName(n), hosts: []string{config.NodeName(n), config.NodeIP(n), "127.0.0.1"}},
			identity{file: config.NodeName(n), name: "system:node:" + config.NodeName(n), groups: []string{"system:nodes"}},
		)
	}
	for _, id := range identities {
		if err := ca.ensure(dir, id); err != nil {
			return err
		}
		if len(id.hosts) == 0 {
			if err := ensureKubeconfig(dir, id.file); err != nil {
				return err
			}
		}
	}
	return frontProxy.ensure(dir, identity{file: "front-proxy-client", name: "front-proxy-client"})
}

// ensureAuthority loads or creates a certificate authority.
func ensureAuthority(dir, file, name string) (*authority, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, file+".crt"), filepath.Join(dir, file+".key"))
	if err == nil {
		key, _ := pair.PrivateKey.(*ecdsa.PrivateKey) // it was written below
		return &authority{cert: pair.Leaf, key: key}, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating the key of %s: %w", name, err)
	}
	template, err := certificateTemplate(name)
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("signing %s: %w", name, err)
	}
	if err := writeKeyPair(dir, file, der, key); err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("parsing %s: %w", name, err)
	}
	return &authority{cert: cert, key: key}, nil
}

// ensure creates a certificate unless it exists.
func (a *authority) ensure(dir string, id identity) error {
	if _, err := os.Stat(filepath.Join(dir, id.file+".crt")); err == nil {
		return nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("generating the key of %s: %w", id.file, err)
	}
	template, err := certificateTemplate(id.name)
	if err != nil {
		return err
	}
	template.Subject.Organization = id.groups
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(id.hosts) > 0 {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	for _, host := range id.hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return fmt.Errorf("signing %s: %w", id.file, err)
	}
	return writeKeyPair(dir, id.file, der, key)
}

func certificateTemplate(commonName string) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("choosing a serial number: %w", err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: commonName},
		NotBefore:    now.Add(-48 * time.Hour), // clocks differ, by a day in make campaign-operations
		NotAfter:     now.Add(certificateLifetime),
	}, nil
}

// writeKeyPair writes the certificate last: its presence means both are there.
func writeKeyPair(dir, file string, cert []byte, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("encoding the key of %s: %w", file, err)
	}
	if err := writePEM(filepath.Join(dir, file+".key"), "EC PRIVATE KEY", der); err != nil {
		return err
	}
	return writePEM(filepath.Join(dir, file+".crt"), "CERTIFICATE", cert)
}

func writePEM(path, kind string, der []byte) error {
	return safefile.Write(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

// ensureKubeconfig writes <user>.kubeconfig with everything inline, so that
// the one file can be copied and handed on.
func ensureKubeconfig(dir, user string) error {
	path := filepath.Join(dir, user+".kubeconfig")
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	inline := map[string]string{}
	for _, file := range []string{"ca.crt", user + ".crt", user + ".key"} {
		content, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return fmt.Errorf("writing the kubeconfig of %s: %w", user, err)
		}
		inline[file] = base64.StdEncoding.EncodeToString(content)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `apiVersion: v1
kind: Config
clusters:
- name: platform-operator
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: %[3]s
  user:
    client-certificate-data: %[4]s
    client-key-data: %[5]s
contexts:
- name: platform-operator
  context: {cluster: platform-operator, user: %[3]s}
current-context: platform-operator
`, config.APIServerURL(), inline["ca.crt"], user, inline[user+".crt"], inline[user+".key"])
	return safefile.Write(path, b.Bytes(), 0o600)
}
