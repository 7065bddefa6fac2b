package certificates

import (
	"cmp"
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// Keys of the Secret, in addition to those of a TLS Secret. The bundle contains
// the CAs that the webhook configurations must trust, newest first. The key is
// that of the newest CA.
const (
	bundleKey = "ca.crt"
	caKeyKey  = "ca.key"
)

// backdate is how long before the current time a certificate becomes valid,
// because the clock of an API server may be behind that of the replica. A day is
// more than the error of a hardware clock that is set to local time.
const backdate = 24 * time.Hour

// maxCAs limits a bundle. During a rotation it has two CAs; more are added only
// if the Secret is damaged repeatedly.
const maxCAs = 4

// Lifetimes specifies how long certificates are valid, and when they are
// renewed.
type Lifetimes struct {
	// Validity is the validity of a serving certificate, and RenewBefore is how
	// long before its expiry the next one is issued.
	Validity, RenewBefore time.Duration
	// CAValidity is the validity of a CA. It is replaced when a certificate that
	// it issues would outlive it.
	CAValidity time.Duration
	// Overlap is how long the previous CA remains trusted. A sixth of it must be
	// longer than any API server may take to observe a change.
	Overlap time.Duration
}

// DefaultLifetimes returns a validity of 90 days, renewed 30 days before expiry,
// and ten years for the CA.
func DefaultLifetimes() Lifetimes {
	const day = 24 * time.Hour
	return Lifetimes{Validity: 90 * day, RenewBefore: 30 * day, CAValidity: 3650 * day, Overlap: time.Hour}
}

// Validate returns an error if a certificate could expire before the next one is
// in use everywhere.
func (l Lifetimes) Validate() error {
	switch {
	case l.RenewBefore < l.Overlap:
		return fmt.Errorf("renew-before %s must be at least %s, which is how long a rotation of the CA takes", l.RenewBefore, l.Overlap)
	case l.Validity <= l.RenewBefore:
		return fmt.Errorf("validity %s must be longer than renew-before %s", l.Validity, l.RenewBefore)
	case l.CAValidity < l.Validity+l.Overlap:
		return fmt.Errorf("validity %s must be shorter than that of the CA, %s", l.Validity, l.CAValidity)
	}
	return nil
}

// material is the usable part of the data of a Secret.
type material struct {
	bundle  []*x509.Certificate
	ca      *tls.Certificate // the first CA in the bundle with its key, or nil
	serving *tls.Certificate // issued by the first CA in the bundle, or nil
}

// read returns the part of the data that is usable now. The rest must be issued
// again, whatever is wrong with it.
func read(data map[string][]byte, now time.Time) material {
	m := material{bundle: parse(now, data[bundleKey])}
	if len(m.bundle) == 0 || now.Before(m.bundle[0].NotBefore) {
		return m // the API server would not accept a certificate by a future CA
	}
	if pair, err := tls.X509KeyPair(data[bundleKey], data[caKeyKey]); err == nil && pair.Leaf.Equal(m.bundle[0]) {
		m.ca = &pair
	}
	if pair, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey]); err == nil && trusts(m.bundle[:1], pair.Leaf, now) {
		m.serving = &pair
	}
	return m
}

// trusts reports whether a client that trusts the CAs accepts the certificate.
func trusts(cas []*x509.Certificate, leaf *x509.Certificate, now time.Time) bool {
	roots := x509.NewCertPool()
	for _, ca := range cas {
		roots.AddCert(ca)
	}
	_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now})
	return err == nil
}

// parse returns the CAs in the bundles that have not expired, each once.
func parse(now time.Time, bundles ...[]byte) []*x509.Certificate {
	var cas []*x509.Certificate
	for _, b := range bundles {
		all, _ := cert.ParseCertsPEM(b) // those before a damaged one
		for _, c := range all {
			if c.IsCA && now.Before(c.NotAfter) && len(cas) < maxCAs && !slices.ContainsFunc(cas, c.Equal) {
				cas = append(cas, c)
			}
		}
	}
	return cas
}

// renewal returns when the serving certificate must be replaced: immediately if
// it does not exist or lacks a name.
func (m material) renewal(l Lifetimes, names []string) time.Time {
	if m.serving == nil || slices.ContainsFunc(names, func(n string) bool { return m.serving.Leaf.VerifyHostname(n) != nil }) {
		return time.Time{}
	}
	return m.serving.Leaf.NotAfter.Add(-l.RenewBefore)
}

// rotation returns when the CA must be replaced.
func (m material) rotation(l Lifetimes) time.Time {
	if m.ca == nil {
		return time.Time{}
	}
	return m.ca.Leaf.NotAfter.Add(-l.Validity)
}

// next returns the next data of a Secret and the reason for the change, or an
// empty reason if nothing is due. A new CA is added to those in the Secret and to
// the trusted ones, so that the API servers still accept the certificate before.
// settled means that the previous CAs are not needed any more.
func next(data map[string][]byte, trusted []byte, l Lifetimes, names []string, now time.Time, settled bool) (map[string][]byte, string, error) {
	m, reason := read(data, now), ""
	data = map[string][]byte{
		bundleKey: data[bundleKey], caKeyKey: data[caKeyKey],
		corev1.TLSCertKey: data[corev1.TLSCertKey], corev1.TLSPrivateKeyKey: data[corev1.TLSPrivateKeyKey],
	}
	var err error
	if !now.Before(m.rotation(l)) {
		reason = "Issued a CA and a certificate"
		var ca []byte
		ca, data[caKeyKey], err = issue(x509.Certificate{
			Subject: pkix.Name{CommonName: "platform-operator-ca"}, NotAfter: now.Add(l.CAValidity),
			KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, IsCA: true,
		}, nil, now)
		if err != nil {
			return nil, "", err
		}
		bundle := parse(now, ca, trusted, data[bundleKey])
		data[bundleKey], _ = cert.EncodeCertificates(bundle...) // fails only if writing to memory does
		m = read(data, now)
	}
	switch {
	case !now.Before(m.renewal(l, names)):
		reason = cmp.Or(reason, "Issued a certificate")
		data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey], err = issue(x509.Certificate{
			Subject: pkix.Name{CommonName: "platform-operator"}, DNSNames: names, NotAfter: now.Add(l.Validity),
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		}, m.ca, now)
	case settled && len(m.bundle) > 1:
		reason = "Removed the previous CA"
		data[bundleKey], err = cert.EncodeCertificates(m.bundle[0])
	}
	return data, reason, err
}

// issue returns a certificate with a new key. Without a CA it is self-signed.
func issue(template x509.Certificate, ca *tls.Certificate, now time.Time) (certPEM, keyPEM []byte, err error) {
	template.NotBefore, template.BasicConstraintsValid = now.Add(-backdate), true
	keyPEM, err = keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return nil, nil, fmt.Errorf("generating a key: %w", err)
	}
	key, err := keyutil.ParsePrivateKeyPEM(keyPEM)
	if err != nil {
		return nil, nil, fmt.Errorf("parsing the new key: %w", err)
	}
	parent, signer := &template, key
	if ca != nil {
		parent, signer = ca.Leaf, ca.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, parent, key.(crypto.Signer).Public(), signer) //nolint:forcetypeassert // every private key is one
	if err != nil {
		return nil, nil, fmt.Errorf("creating a certificate: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der}), keyPEM, nil
}
